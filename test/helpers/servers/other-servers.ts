import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { run, spawnServer, stopChild, waitForPort } from '../product/child.ts';
import { freePort } from './free-port.ts';
import { addUser, type MailLogin } from '../product/mail-user.ts';
import { openMailbox } from '../product/mailbox.ts';
import { waitFor } from '../assert/wait.ts';

/** A mail server for one mailbox. */
export interface OtherServer {
  login: MailLogin;
  stop(): Promise<void>;
}

/** What the tests download or build once. */
export const CACHE = join(projectRoot(), '.cache');
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
    startOther('GreenMail', async ({ user, password, imapPort }) => [
      'java',
      '-Xmx128m',
      '-Dgreenmail.imap.hostname=127.0.0.1',
      `-Dgreenmail.imap.port=${imapPort}`,
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
    startOther('pymap', async ({ user, password, imapPort }) => [
      ...['python3', '-c', program, '--host', '127.0.0.1', '--port', String(imapPort), '--no-tls'],
      // A password may begin with "-", as an option does.
      ...['dict', '--demo-data', '--demo-user', user, `--demo-password=${password}`],
    ]);
}

/** A slow machine takes this long to start a server in Java, in milliseconds. */
const START_MS = 90_000;

/**
 * Starts a server for one mailbox by the command that `prepare` gives, in a separate folder. The user exists on Dovecot
 * too: its Postfix is where the mailbox sends by. Resolves once the user can log in.
 */
export async function startOther(
  name: string,
  prepare: (login: MailLogin, dir: string) => Promise<string[]>,
): Promise<OtherServer> {
  const { user, password, submissionPort } = await addUser();
  const dir = await mkdtemp(join(tmpdir(), 'other-server-'));
  const remove = () => rm(dir, { recursive: true, force: true });
  const logFile = join(dir, 'printed');
  for (let attempts = 1; ; attempts += 1) {
    const imapPort = await freePort();
    const login: MailLogin = { user, password, submissionPort, imapPort };
    const [command = '', ...args] = await prepare(login, dir);
    const log = await open(logFile, 'w');
    const child = spawnServer(command, args, log.fd);
    await log.close();
    const stop = () => stopChild(child);
    try {
      await waitForPort(imapPort, child, name, START_MS);
      await waitFor(() => canLogIn(login), { timeoutMs: START_MS, what: `a login to ${name}` });
      return { login, stop: () => stop().then(remove) };
    } catch (error) {
      const hasEnded = child.exitCode !== null;
      const printed = await readFile(logFile, 'utf8');
      await stop();
      // another process may have taken one of its ports
      if (hasEnded && attempts < 3) continue;
      await remove();
      throw new Error(`${String(error)}\n${printed.slice(-4000)}`, { cause: error });
    }
  }
}

async function canLogIn(login: MailLogin): Promise<boolean> {
  const box = await openMailbox(login).catch(() => undefined);
  await box?.close();
  return box !== undefined;
}

/** Runs a command; whether it succeeded. */
export function attempt(command: string, args: string[]): Promise<boolean> {
  return run(command, args, { timeout: 600_000 }).then(
    () => true,
    () => false,
  );
}
