import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type DovecotInfo, type RunningDovecot, startDovecot } from './dovecot.ts';
import { ensureMailPackages } from './mail-packages.ts';
import { type PostfixInfo, startPostfix } from './postfix.ts';
import { makeCertificate, type TestCertificate } from './test-ca.ts';

/** Everything a test process has to know about the servers that another process started. */
export interface MailServers {
  dovecot: DovecotInfo;
  postfix: PostfixInfo;
  certificate: TestCertificate;
}

const VARIABLE = 'TEST_MAIL_SERVERS';

/**
 * Starts Dovecot and Postfix for tests, all their files in `dir`, on free loopback ports; 1–2 s.
 * `env` is for the processes that test: it names the servers and makes node trust their certificate.
 * @throws MailServersMissing with one line that says why, when they cannot run here
 */
export async function startMailServers(
  dir: string,
  progress?: (line: string) => void,
): Promise<{ env: Record<string, string>; servers: MailServers; pids: number[]; stop(): Promise<void> }> {
  await ensureMailPackages(progress);
  await mkdir(dir, { recursive: true });
  // The servers switch to other users, which need access.
  await chmod(dir, 0o755);
  const certificate = await makeCertificate(join(dir, 'tls'));
  const dovecot: RunningDovecot = await startDovecot(join(dir, 'dovecot'), { certificate });
  const { stop: stopDovecot, pid, ...dovecotInfo } = dovecot;
  try {
    const running = await startPostfix(join(dir, 'postfix'), { certificate, ...dovecotInfo });
    const { stop: stopPostfix, pid: postfixPid, ...postfix } = running;
    const servers: MailServers = { dovecot: dovecotInfo, postfix, certificate };
    return {
      env: { [VARIABLE]: JSON.stringify(servers), NODE_EXTRA_CA_CERTS: certificate.ca },
      servers,
      pids: [pid, postfixPid],
      stop: async () => {
        // Dovecot's login service ends only when Postfix has let go of it.
        await stopPostfix();
        await stopDovecot();
      },
    };
  } catch (error) {
    await stopDovecot();
    throw error;
  }
}

/** The servers that the test run started. Throws when it started none. */
export function mailServers(): MailServers {
  const value = process.env[VARIABLE];
  if (!value) throw new Error(`${VARIABLE} is not set: run this test by \`npm test\``);
  return JSON.parse(value) as MailServers;
}
