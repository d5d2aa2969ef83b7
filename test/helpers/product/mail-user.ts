import { randomBytes } from 'node:crypto';
import { chown, mkdir, rename, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './child.ts';
import type { DovecotInfo } from '../servers/dovecot.ts';
import { mailServers } from '../servers/mail-servers.ts';
import { waitFor } from '../assert/wait.ts';

/** How a mailbox on any server is reached. */
export interface MailLogin {
  /** login and address */
  user: string;
  password: string;
  /** IMAP without TLS, on loopback */
  imapPort: number;
  submissionPort: number;
}

/** A mailbox on a Dovecot of the tests. */
export interface MailUser extends MailLogin {
  dovecot: DovecotInfo;
}

export interface NewUser {
  user?: string | undefined;
  /** of a generated name, default example.test */
  domain?: string | undefined;
  password?: string | undefined;
  dovecot?: DovecotInfo | undefined;
}

let counter = 0;

/** Creates a separate mailbox, with a generated name by default. */
export async function addUser(wanted: NewUser = {}): Promise<MailUser> {
  const servers = mailServers();
  const dovecot = wanted.dovecot ?? servers.dovecot;
  const made: MailUser = {
    user:
      wanted.user ??
      `u${process.pid}.${++counter}.${randomBytes(3).toString('hex')}@${wanted.domain ?? 'example.test'}`,
    password: wanted.password ?? randomBytes(12).toString('base64url'),
    imapPort: dovecot.imapPort,
    submissionPort: servers.postfix.submissionPort,
    dovecot,
  };
  await writeUser(made);
  return made;
}

/** Changes the password at the provider; logged-in sessions stay. */
export async function setPassword(user: MailUser, password: string): Promise<void> {
  user.password = password;
  await writeUser(user);
  // Dovecot checks the file at most once a second.
  const isAccepted = () =>
    doveadm(user, 'auth', 'test', user.user, password).then(
      () => true,
      () => false,
    );
  await waitFor(isAccepted, { timeoutMs: 30_000, what: 'Dovecot to accept the new password' });
}

/** Ends every IMAP session of the user at the server's side. */
export async function kick(user: MailUser): Promise<void> {
  // exit code 68: there was no session
  await doveadm(user, 'kick', user.user).catch((error: { code?: number }) => {
    if (error.code !== 68) throw error;
  });
}

/** Runs doveadm on the server where the user lives, and returns its output. */
export async function doveadm(user: MailUser, ...args: string[]): Promise<string> {
  const { stdout } = await run('doveadm', ['-c', user.dovecot.configFile, ...args], { maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

let lastStamp = 0;

async function writeUser({ user, password, dovecot }: MailUser): Promise<void> {
  const home = join(dovecot.mailDir, user);
  const uid = uidOf(user);
  await mkdir(home, { recursive: true, mode: 0o700 });
  await chown(home, uid, uid);
  const secret = Buffer.from(password).toString('base64');
  const file = join(dovecot.usersDir, user.toLowerCase());
  await writeFile(`${file}~`, `${user}:{PLAIN.b64}${secret}:${uid}:${uid}::${home}::\n`);
  // Dovecot rereads a file when its time in whole seconds or its size changes: give each write a different time.
  lastStamp = Math.max(Math.floor(Date.now() / 1000), lastStamp + 1);
  await utimes(`${file}~`, lastStamp, lastStamp);
  await rename(`${file}~`, file);
}

/** A system user per mailbox: the kernel limits how many folders one user may watch. */
function uidOf(user: string): number {
  let hash = 0;
  for (const char of user) hash = (hash * 31 + char.charCodeAt(0)) % 40_000;
  return 20_000 + hash;
}
