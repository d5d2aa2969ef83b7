import { decodePath, normalizePath } from 'imapflow/lib/tools.js';
import { FolderExists, FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { type Argument, atom, command, folderArgument } from './command.ts';
import { refusedAs, refusedAsMissing } from './response-codes.ts';
import { textOf, type Untagged } from './tokens.ts';
import { findFolder } from './list.ts';
import { type CommandLimits, type ImapSession, LONGEST_SILENCE_MS } from './session.ts';

const FOLDER_TIMEOUT_MS = 120_000;

/**
 * The path of a folder in a parent folder, or at the top: with the server's separator, below the prefix of the personal
 * namespace (RFC 2342).
 */
export function folderPath(session: ImapSession, parentPath: string | null, name: string): string {
  const delimiter = session.client.namespace?.delimiter ?? '/';
  return parentPath === null ? normalizePath(session.client, name) : `${parentPath}${delimiter}${name}`;
}

/**
 * Creates a folder, and subscribes to it: other mail programs then show it.
 * @throws FolderExists when the name is taken; MailError
 */
export async function createFolder(session: ImapSession, path: string): Promise<void> {
  await run(session, 'CREATE', [path]).catch((error: unknown) => taken(session, path, error));
  await subscribe(session, path);
}

/**
 * Renames a folder with its subfolders and subscriptions.
 * @throws FolderExists when the name is taken; FolderMissing; MailError
 */
export async function renameFolder(session: ImapSession, from: string, to: string): Promise<void> {
  await leave(session, from);
  await moveSubscriptions(session, from, to, async () => {
    await run(session, 'RENAME', [from, to]).catch(async (error: unknown) => {
      await missing(session, from, error);
      await taken(session, to, error);
    });
  });
}

/**
 * Deletes a folder with its messages. Subfolders remain (RFC 3501 6.3.4), or make the server refuse.
 * @throws FolderMissing; MailError
 */
export async function deleteFolder(session: ImapSession, path: string): Promise<void> {
  await leave(session, path);
  await run(session, 'DELETE', [path], { silenceMs: LONGEST_SILENCE_MS }).catch(async (error: unknown) => {
    await missing(session, path, error);
    throw error;
  });
  await unsubscribe(session, path);
}

async function run(session: ImapSession, verb: string, paths: string[], limits: CommandLimits = {}): Promise<void> {
  const args = paths.map((path) => folderArgument(session, path));
  await command(session, verb, args, { deadlineMs: FOLDER_TIMEOUT_MS, ...limits });
}

/** A server may refuse to rename or delete the selected folder. CLOSE would expunge what others marked \Deleted. */
async function leave(session: ImapSession, path: string): Promise<void> {
  const { mailbox } = session.client;
  if (!mailbox || !mailbox.path.startsWith(normalizePath(session.client, path))) return;
  await session.run('EXAMINE', () => session.client.mailboxOpen('INBOX', { readOnly: true }));
}

async function taken(session: ImapSession, path: string, error: unknown): Promise<never> {
  if (!isRefused(error)) throw error;
  if (refusedAs('exists', error) || (await findFolder(session, path))) throw new FolderExists(error);
  throw error;
}

async function missing(session: ImapSession, path: string, error: unknown): Promise<void> {
  if (!isRefused(error)) throw error;
  if (refusedAs('exists', error)) return;
  if (refusedAsMissing(error) || !(await findFolder(session, path))) throw new FolderMissing(error);
}

function isRefused(error: unknown): error is MailError {
  return error instanceof MailError && error.refused;
}

/** Subscriptions (RFC 3501 6.3.6) say which folders mail programs show. Refusals are ignored. */

export function subscribe(session: ImapSession, path: string): Promise<void> {
  return leniently(() => command(session, 'SUBSCRIBE', [folderArgument(session, path)]));
}

export function unsubscribe(session: ImapSession, path: string): Promise<void> {
  return leniently(() => command(session, 'UNSUBSCRIBE', [folderArgument(session, path)]));
}

/** Runs a rename, then renames the subscriptions of the folder and its subfolders, which servers leave unchanged. */
export async function moveSubscriptions(
  session: ImapSession,
  from: string,
  to: string,
  rename: () => Promise<void>,
): Promise<void> {
  const [before, after] = [from, to].map((path) => normalizePath(session.client, path)) as [string, string];
  const delimiter = session.client.namespace?.delimiter ?? '/';
  const affected = new Set<string>();
  await leniently(async () => {
    for (const pattern of [before, `${before}${delimiter}*`]) {
      for (const path of await listSubscribed(session, pattern)) {
        if (path === before || path.startsWith(before + delimiter)) affected.add(path);
      }
    }
  });
  await rename();
  for (const path of affected) {
    await unsubscribe(session, path);
    await subscribe(session, after + path.slice(before.length));
  }
}

/** LSUB; in IMAP4rev2 an option of LIST replaces it. */
async function listSubscribed(session: ImapSession, pattern: string): Promise<string[]> {
  const paths: string[] = [];
  const listen = ({ attributes = [] }: Untagged) => {
    const flags = (Array.isArray(attributes[0]) ? attributes[0] : []).map(textOf);
    const raw = textOf(attributes[2]);
    // LSUB lists parents of subscribed folders as \Noselect
    if (raw !== undefined && !flags.includes('\\Noselect')) paths.push(decodePath(session.client, raw));
  };
  const names: Argument[] = [{ type: 'STRING', value: '' }, folderArgument(session, pattern)];
  const extended = session.has('LIST-EXTENDED') || session.has('IMAP4rev2');
  if (extended) await command(session, 'LIST', [[atom('SUBSCRIBED')], ...names], { untagged: { LIST: listen } });
  else await command(session, 'LSUB', names, { untagged: { LSUB: listen } });
  return paths;
}

async function leniently(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof MailError) || !error.refused) throw error;
  }
}
