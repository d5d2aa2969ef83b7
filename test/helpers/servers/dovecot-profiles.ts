import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type DovecotInfo,
  type DovecotOptions,
  OLD_CAPABILITIES,
  type RunningDovecot,
  startDovecot,
} from './dovecot.ts';
import { addUser, type MailUser } from '../product/mail-user.ts';
import { mailServers } from './mail-servers.ts';

/** Without MOVE, UIDPLUS, SPECIAL-USE, NOTIFY, CONDSTORE, QRESYNC, LIST-EXTENDED, LIST-STATUS. */
const STRIPPED = 'IMAP4rev1 SASL-IR LITERAL+ IDLE NAMESPACE ENABLE ID CHILDREN UNSELECT';

/** Dovecots with fewer extensions or other folder names. */
export const DOVECOT_PROFILES = {
  /** all extensions of Dovecot */
  full: {},
  /** without the extensions that writing relies on; folders have roles only by name */
  stripped: { capabilities: STRIPPED, bareFolders: true },
  /** UIDPLUS but no MOVE */
  withoutMove: { capabilities: `${STRIPPED} UIDPLUS SPECIAL-USE LIST-EXTENDED LIST-STATUS CONDSTORE` },
  /** no extension at all */
  old: { capabilities: OLD_CAPABILITIES, bareFolders: true },
  /** all folders are below `INBOX.`, with `.` between them */
  prefixed: { prefix: 'INBOX.', separator: '.' },
  oldPrefixed: { capabilities: OLD_CAPABILITIES, bareFolders: true, prefix: 'INBOX.', separator: '.' },
} satisfies Record<string, Omit<DovecotOptions, 'certificate'>>;

export type DovecotProfile = keyof typeof DOVECOT_PROFILES;

/** Starts a Dovecot of a profile beside that of the test run; its files are removed with it. */
export async function startDovecotProfile(profile: DovecotProfile): Promise<RunningDovecot> {
  const dir = await mkdtemp(join(tmpdir(), 'dovecot-'));
  const { stop, ...info } = await startDovecot(dir, {
    certificate: mailServers().certificate,
    ...DOVECOT_PROFILES[profile],
  });
  return {
    ...info,
    stop: async () => {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/**
 * Creates a mailbox on such a Dovecot that can also send: Postfix checks logins with the Dovecot of the test run, so it is
 * created there too.
 */
export async function addUserWhoSends(dovecot: DovecotInfo): Promise<MailUser> {
  const user = await addUser({ dovecot });
  await addUser({ user: user.user, password: user.password });
  return user;
}
