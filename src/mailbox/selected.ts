import { type SelectedFolder, trySelect } from '../imap/select.ts';
import type { ImapSession } from '../imap/session.ts';
import { uidValidityOf } from '../imap/uidvalidity.ts';

/**
 * A folder as it was selected on a session. A UID is valid in one folder under one UIDVALIDITY only (RFC 9051 2.3.1.1), so
 * every function that sends a command with UIDs takes a Selection and verifies it with `assertSelected`.
 */
export interface Selection extends SelectedFolder {
  readonly path: string;
}

/** Selects a folder and runs `work` in it; undefined, without `work`, when the server refuses to open the folder. */
export async function withSelected<T>(
  session: ImapSession,
  path: string,
  work: (selection: Selection) => Promise<T>,
): Promise<T | undefined> {
  const selected = await trySelect(session, path);
  return selected && work(selectionOf(session, selected));
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
