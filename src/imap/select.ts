import { FolderMissing, MailError } from '../mail-error.ts';
import { refusedAsMissing } from './command.ts';
import type { SelectedFolder } from './fetch.ts';
import type { ImapSession } from './session.ts';

/**
 * SELECTs a folder for writing, always anew, so that UIDVALIDITY and the counters are of this moment.
 * @throws FolderMissing (refused) when there is no such folder; MailError provider_rejected when nothing may be changed
 * in it
 */
export async function openFolder(session: ImapSession, path: string): Promise<SelectedFolder> {
  const mailbox = await session
    .step('SELECT', () => session.client.mailboxOpen(path, { readOnly: false }))
    .catch((error: unknown) => {
      throw isMissing(error) ? new FolderMissing(error) : error;
    });
  if (mailbox.readOnly) {
    const options = { refused: true };
    throw new MailError('provider_rejected', 'imap', 'the provider lets nobody change this folder', options);
  }
  return {
    uidValidity: Number(mailbox.uidValidity ?? 0),
    uidNext: mailbox.uidNext || null,
    exists: mailbox.exists ?? 0,
    highestModseq: session.condstore && !mailbox.noModseq ? (mailbox.highestModseq ?? null) : null,
  };
}

/** A server that refuses without saying why was asked by LIST whether there is such a folder (imapflow does). */
function isMissing(error: unknown): boolean {
  if (!(error instanceof MailError) || !error.refused) return false;
  return refusedAsMissing(error) || (error.cause as { mailboxMissing?: boolean } | undefined)?.mailboxMissing === true;
}
