import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../../src/embedded/project-root.ts';
import { run, spawnServer, stopChild, waitForPort } from '../product/child.ts';
import { freePort } from './free-port.ts';
import { addUser, type MailLogin } from '../product/mail-user.ts';

/** A mail server for one mailbox. */
export interface OtherServer {
  login: MailLogin;
  stop(): Promise<void>;
}

const CACHE = join(projectRoot(), '.cache');
const GREENMAIL = '2.1.3';
const PYMAP = '0.36.7';

/**
 * GreenMail, a server in Java: neither NAMESPACE, CONDSTORE, LIST-STATUS nor special folders, `.` between folders.
 * Answers how to start it, or undefined where it cannot be had (no Maven, no Java, no network at the first time).
 */
export async function greenMail(): Promise<(() => Promise<OtherServer>) | undefined> {
  const repository = join(CACHE, 'maven');
  const artifact = 'greenmail-standalone';
  const jar = join(repository, `com/icegreen/${artifact}/${GREENMAIL}/${artifact}-${GREENMAIL}.jar`);
  if (!existsSync(jar)) {
    const get = ['-q', '-B', `-Dmaven.repo.local=${repository}`, 'dependency:get', '-Dtransitive=false'];
    const got = await attempt('mvn', [...get, `-Dartifact=com.icegreen:${artifact}:${GREENMAIL}`]);
    if (!got) return undefined;
  }
  if (!(await attempt('java', ['-version']))) return undefined;
  return () =>
    start('GreenMail', 'java', ({ user, password }, port) => [
      '-Xmx128m',
      '-Dgreenmail.imap.hostname=127.0.0.1',
      `-Dgreenmail.imap.port=${port}`,
      '-Dgreenmail.users.login=email',
      `-Dgreenmail.users=${user.replace('@', `:${password}@`)}`,
      '-jar',
      jar,
    ]);
}

/**
 * pymap, a server in Python: OBJECTID (EMAILID, THREADID, MAILBOXID) but no CONDSTORE; holds a few mails at its start.
 * Answers how to start it, or undefined where it cannot be had (no Python, no network at the first time).
 */
export async function pymap(): Promise<(() => Promise<OtherServer>) | undefined> {
  const library = join(CACHE, `pymap-${PYMAP}`);
  if (!existsSync(join(library, 'pymap'))) {
    await mkdir(library, { recursive: true });
    const install = ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', '--target', library];
    if (!(await attempt('python3', [...install, `pymap==${PYMAP}`]))) return undefined;
  }
  const program = `import sys; sys.path.insert(0, ${JSON.stringify(library)}); from pymap.main import main; main()`;
  return () =>
    start('pymap', 'python3', ({ user, password }, port) => [
      ...['-c', program, '--host', '127.0.0.1', '--port', String(port), '--no-tls'],
      ...['dict', '--demo-data', '--demo-user', user, '--demo-password', password],
    ]);
}

/** The user exists on Dovecot too: its Postfix is where the mailbox sends by. */
async function start(
  name: string,
  command: string,
  args: (user: MailLogin, port: number) => string[],
): Promise<OtherServer> {
  const imapPort = await freePort();
  const { user, password, submissionPort } = await addUser();
  const login: MailLogin = { user, password, submissionPort, imapPort };
  const child = spawnServer(command, args(login, imapPort));
  await waitForPort(imapPort, child, name);
  return { login, stop: () => stopChild(child) };
}

function attempt(command: string, args: string[]): Promise<boolean> {
  return run(command, args, { timeout: 240_000 }).then(
    () => true,
    () => false,
  );
}
