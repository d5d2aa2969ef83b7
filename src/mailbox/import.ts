import { fetchMetaOf } from '../imap/fetch.ts';
import { leftOutMessages, listUidsSince } from '../imap/list-uids.ts';
import { refusedAs, refusedAsMissing } from '../imap/response-codes.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { PartUnavailable } from '../outage.ts';
import type { SyncContext } from './context.ts';
import { ingest, type IngestTarget } from './ingest/ingest.ts';
import { assertSelected, type Selection, withSelected } from './selected.ts';
import { type FolderState, loadFolders } from './store/folders.ts';
import { locatedUids } from './store/locations.ts';

export interface ImportOptions {
  /** messages that arrived since then are imported */
  since: Date;
  signal: AbortSignal;
  /** called after each batch that was committed */
  onProgress(imported: number): void;
}

/** Messages whose metadata is requested in one FETCH. */
const CHUNK = 500;

/**
 * Imports messages from before the connect, folder by folder (INBOX first), newest first. Stored messages are skipped, so
 * it continues where it was stopped. A folder that cannot be read now does not stop the others. Emits no `email.new`.
 * @throws PartUnavailable when the storage had no room for some messages, MailError when a folder could not be read
 *   completely, both once all others are imported; MailError
 */
export async function importMail(ctx: SyncContext, options: ImportOptions): Promise<void> {
  const folders = (await loadFolders(ctx.db, ctx.account.id)).filter((folder) => folder.selectable);
  const done: Imported = { leftOut: 0 };
  const rank = (folder: FolderState) => (folder.role === 'INBOX' ? 0 : folder.role === 'ALL' ? 2 : 1);
  for (const folder of folders.sort((a, b) => rank(a) - rank(b))) {
    if (options.signal.aborted) return;
    await importFolder(ctx, folder, options, done);
  }
  if (done.unread) throw done.unread;
  if (done.leftOut > 0) throw new PartUnavailable('storage', { detail: 'the storage is full', full: true });
}

interface Imported {
  /** messages for which the storage has no room */
  leftOut: number;
  /** why a folder could not be read completely */
  unread?: MailError;
}

async function importFolder(
  ctx: SyncContext,
  folder: FolderState,
  options: ImportOptions,
  done: Imported,
): Promise<void> {
  const read = new Set<number>();
  const noteRefusal = (refusal: MailError) => {
    // Not ours to read, or deleted since: no later attempt would find more.
    if (!refusedAs('forbidden', refusal) && !refusedAsMissing(refusal)) done.unread = refusal;
  };
  try {
    for (let left = true; left && !options.signal.aborted; ) {
      const round = (selection: Selection) => importRound(ctx, { folder, selection, read, done }, options);
      left = (await withSelected(ctx.session, folder.path, round, noteRefusal)) ?? false;
    }
  } catch (error) {
    if (!(error instanceof MailError) || !ctx.session.client.usable) throw error;
    done.unread = error;
  }
}

interface Round {
  folder: FolderState;
  selection: Selection;
  /** UIDs whose messages were read in this attempt, or are not wanted */
  read: Set<number>;
  done: Imported;
}

/**
 * Imports the messages that the folder holds and that were not read yet. The folder is selected anew for each round: the
 * last one finds nothing left, under the same UIDVALIDITY.
 * @returns whether there were any
 */
async function importRound(
  ctx: SyncContext,
  { folder, selection, read, done }: Round,
  options: ImportOptions,
): Promise<boolean> {
  if (selection.exists === 0) return false;
  if (folder.uidValidity !== null && selection.uidValidity !== folder.uidValidity) {
    // The watch maps the stored UIDs first.
    throw new MailError('provider_error', 'imap', 'the UIDs of a folder have changed');
  }
  // SEARCH SINCE compares days in the server's time zone (RFC 9051 6.4.4): request one more day and compare
  // INTERNALDATE.
  const asked = new Date(options.since.getTime() - 24 * 3600 * 1000);
  const { uids: listed, complete } = await listUidsSince(ctx.session, asked);
  const uids = listed.filter((uid) => uid < (folder.baselineUidNext ?? Infinity) && !read.has(uid));
  const before = read.size;
  for (let end = uids.length; end > 0 && !options.signal.aborted; end -= CHUNK) {
    const chunk = uids.slice(Math.max(0, end - CHUNK), end);
    done.leftOut += await importChunk(
      ctx,
      { folder, selection, source: 'initialSync' },
      { uids: chunk, read },
      options,
    );
  }
  // what is listed is imported first
  const isUnread = uids.length > 0 ? read.size === before : !complete;
  if (isUnread && !options.signal.aborted) throw leftOutMessages();
  return uids.length > 0;
}

async function importChunk(
  ctx: SyncContext,
  target: IngestTarget,
  { uids, read }: { uids: number[]; read: Set<number> },
  { since, onProgress }: ImportOptions,
): Promise<number> {
  assertSelected(ctx.session, target.selection);
  const located = await locatedUids(ctx.db, target.folder.id, uids, true);
  const metas = await fetchMetaOf(
    ctx.session,
    uids.filter((uid) => !located.has(uid)),
  );
  const wanted = metas.filter((meta) => meta.internalDate >= since).sort((a, b) => b.uid - a.uid);
  const { leftOut } = await ingest(ctx, target, wanted, onProgress);
  for (const uid of located) read.add(uid);
  for (const { uid } of metas) read.add(uid);
  onProgress(0);
  return leftOut.length;
}
