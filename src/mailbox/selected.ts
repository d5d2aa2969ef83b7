import { refusedInFolder } from '../imap/response-codes.ts';
import { selectFolder, type SelectedFolder, trySelect } from '../imap/select.ts';
import type { ImapSession } from '../imap/session.ts';
import { uidValidityOf } from '../imap/uidvalidity.ts';
import type { MailError } from '../mail-wire/mail-error.ts';

/**
 * A folder as it was selected on a session. A UID is valid in one folder under one UIDVALIDITY only (RFC 9051 2.3.1.1), so
 * every function that sends a command with UIDs takes a Selection and verifies it with `assertSelected`.
 */
export interface Selection extends SelectedFolder {
  readonly path: string;
}

/**
 * Selects a folder and runs `work` in it. Undefined, after `onRefused`, when the server refuses to open the folder, or
 * refuses a command in it: other folders can still be read on this session.
 */
export async function withSelected<T>(
  session: ImapSession,
  path: string,
  work: (selection: Selection) => Promise<T>,
  onRefused: (refusal: MailError) => void = () => {},
): Promise<T | undefined> {
  try {
    return await work(selectionOf(session, await selectFolder(session, path)));
  } catch (error) {
    if (!refusedInFolder(error)) throw error;
    onRefused(error);
    return undefined;
  }
}

/** The Selection of a folder that was selected just now. */
export function selectionOf(session: ImapSession, selected: SelectedFolder): Selection {
  return { ...selected, path: selectedPath(session) ?? '' };
}

/** Path of the folder that is selected now. */
export function selectedPath({ client }: ImapSession): string | undefined {
  return client.mailbox ? client.mailbox.path : undefined;
}

/** @throws Error when the session has another folder selected, or the folder under another UIDVALIDITY */
export function assertSelected(session: ImapSession, selection: Selection): void {
  if (session.client.usable && !isSelected(session, selection)) throw new Error('another folder is selected');
}

/**
 * Selects the folder again if another one was selected since. False: the server refuses, or the UIDs have changed, which
 * invalidates all that was read of the folder.
 */
export async function ensureSelected(session: ImapSession, selection: Selection): Promise<boolean> {
  if (isSelected(session, selection)) return true;
  return (await trySelect(session, selection.path)) !== undefined && isSelected(session, selection);
}

function isSelected({ client }: ImapSession, { path, uidValidity }: Selection): boolean {
  const { mailbox } = client;
  return mailbox !== false && mailbox?.path === path && uidValidityOf(mailbox) === uidValidity;
}
