import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { run } from '../product/child.ts';

/** Debian packages and a file that each of them brings. */
const PACKAGES = [
  { name: 'dovecot-imapd', file: '/usr/lib/dovecot/imap' },
  { name: 'dovecot-lmtpd', file: '/usr/lib/dovecot/lmtp' },
  { name: 'postfix', file: '/usr/lib/postfix/sbin/master' },
  { name: 'openssl', file: '/usr/bin/openssl' },
];

const POLICY = '/usr/sbin/policy-rc.d';

/** The mail servers cannot run here; `message` says why in one line. */
export class MailServersMissing extends Error {}

/**
 * Makes sure that Dovecot and Postfix are installed, by apt-get where this may be done.
 * @throws MailServersMissing when they are not there and cannot be brought
 */
export async function ensureMailPackages(progress: (line: string) => void = () => {}): Promise<void> {
  const missing = PACKAGES.filter(({ file }) => !existsSync(file)).map(({ name }) => name);
  if (process.getuid?.() !== 0) {
    throw new MailServersMissing('tests with real mail servers need root (Postfix starts only as root)');
  }
  if (missing.length === 0) return;
  if (!existsSync('/usr/bin/apt-get')) {
    throw new MailServersMissing(`tests with real mail servers need ${missing.join(', ')}: please install them`);
  }
  progress(`installing ${missing.join(', ')} by apt-get`);
  await installPackages(missing).catch((error: Error) => {
    throw new MailServersMissing(error.message);
  });
}

/** Installs Debian packages without starting their services. @throws Error with one line that says why it could not */
export async function installPackages(names: string[]): Promise<void> {
  try {
    await install(names);
  } catch (error) {
    const reason = String((error as { stderr?: string }).stderr ?? error)
      .trim()
      .split('\n')
      .at(-1);
    throw new Error(`apt-get could not install ${names.join(', ')}: ${reason}`);
  }
}

/** Installs Debian packages by apt-get, without starting their services. */
export async function install(names: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // The packages are wanted, their services on the well-known ports are not.
  const ownPolicy = !existsSync(POLICY);
  if (ownPolicy) await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await run(
      'sh',
      ['-c', 'echo "postfix postfix/main_mailer_type select No configuration" | debconf-set-selections'],
      { env },
    );
    await run('apt-get', ['update', '-qq'], { env });
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names], {
      env,
      maxBuffer: 64 * 1024 * 1024,
    });
  } finally {
    if (ownPolicy) await rm(POLICY, { force: true });
  }
}
