import type { MailboxObject } from 'imapflow';
import { FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { refusedAsMissing } from './response-codes.ts';
import type { ImapSession } from './session.ts';
import { uidValidityOf } from './uidvalidity.ts';

/** The state of a folder at its SELECT (RFC 3501 6.3.1) or EXAMINE (6.3.2). */
export interface SelectedFolder {
  uidValidity: number;
  /** null where the server does not say */
  uidNext: number | null;
  exists: number;
  /** null without CONDSTORE or with NOMODSEQ */
  highestModseq: bigint | null;
}

/** More messages than any folder has: bounds every loop over the messages of a folder. */
const MAX_EXISTS = 50_000_000;

/** Opens a folder as selectFolder does; undefined when the server refuses. */
export async function trySelect(session: ImapSession, path: string): Promise<SelectedFolder | undefined> {
  try {
    return await selectFolder(session, path);
  } catch (error) {
    if (error instanceof MailError && error.refused) return undefined;
    throw error;
  }
}

/**
 * Opens a folder, even if it is already selected: the counters are current. Uses SELECT, since some servers (Courier)
 * assign new messages temporary UIDs under EXAMINE; EXAMINE where SELECT is refused. Messages are read with PEEK, so no
 * flag changes.
 * @throws MailError
 */
export async function selectFolder(session: ImapSession, path: string): Promise<SelectedFolder> {
  try {
    return selectedFolder(session, await open(session, path, false));
  } catch (error) {
    if (!(error instanceof MailError && error.refused) || isMissing(error)) throw error;
    return selectedFolder(session, await open(session, path, true));
  }
}

/**
 * Opens a folder for writing (SELECT), even if it is already selected: UIDVALIDITY and the counters are current.
 * @throws FolderMissing (refused) when the folder does not exist; MailError provider_rejected when it is read-only
 */
export async function openFolder(session: ImapSession, path: string): Promise<SelectedFolder> {
  const mailbox = await open(session, path, false).catch((error: unknown) => {
    throw isMissing(error) ? new FolderMissing(error) : error;
  });
  if (mailbox.readOnly) {
    const options = { refused: true };
    throw new MailError('provider_rejected', 'imap', 'the provider does not allow changes in this folder', options);
  }
  return selectedFolder(session, mailbox);
}

function open(session: ImapSession, path: string, readOnly: boolean): Promise<MailboxObject> {
  return session.run('SELECT', () => session.client.mailboxOpen(path, { readOnly }));
}

function selectedFolder(session: ImapSession, mailbox: MailboxObject): SelectedFolder {
  const { exists = 0, uidNext, noModseq, highestModseq } = mailbox;
  if (exists > MAX_EXISTS) throw new MailError('provider_error', 'imap', 'SELECT failed: the response was too large');
  return {
    uidValidity: uidValidityOf(mailbox),
    uidNext: uidNext || null,
    exists,
    // a MODSEQ is positive (RFC 7162 7)
    highestModseq: session.condstore && !noModseq ? highestModseq || null : null,
  };
}

/**
 * Whether SELECT or EXAMINE was refused since the folder does not exist. When a server refuses without a response code,
 * imapflow has asked by LIST.
 */
export function isMissing(error: unknown): boolean {
  if (!(error instanceof MailError) || !error.refused) return false;
  return refusedAsMissing(error) || (error.cause as { mailboxMissing?: boolean } | undefined)?.mailboxMissing === true;
}
