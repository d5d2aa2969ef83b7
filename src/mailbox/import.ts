import { fetchMetaOf, MAX_UID } from '../imap/fetch.ts';
import { searchUids } from '../imap/search.ts';
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
 * it continues where it was stopped. Emits no `email.new`.
 * @throws PartUnavailable when the storage had no room for some messages, once all others are imported; MailError
 */
export async function importMail(ctx: SyncContext, options: ImportOptions): Promise<void> {
  const folders = (await loadFolders(ctx.db, ctx.account.id)).filter((folder) => folder.selectable);
  let leftOut = 0;
  const rank = (folder: FolderState) => (folder.role === 'INBOX' ? 0 : folder.role === 'ALL' ? 2 : 1);
  for (const folder of folders.sort((a, b) => rank(a) - rank(b))) {
    if (options.signal.aborted) return;
    leftOut += await importFolder(ctx, folder, options);
  }
  if (leftOut > 0) throw new PartUnavailable('storage', { detail: 'the storage is full', full: true });
}

/** The number of messages for which the storage has no room. */
async function importFolder(ctx: SyncContext, folder: FolderState, options: ImportOptions): Promise<number> {
  let leftOut = 0;
  const importAll = async (selection: Selection) => {
    if (selection.exists === 0) return;
    if (folder.uidValidity !== null && selection.uidValidity !== folder.uidValidity) return;
    // SEARCH SINCE compares days in the server's time zone (RFC 9051 6.4.4): request one more day and compare
    // INTERNALDATE.
    const asked = new Date(options.since.getTime() - 24 * 3600 * 1000);
    const uids = await searchUids(ctx.session, folder.baselineUidNext ?? MAX_UID + 1, asked);
    for (let end = uids.length; end > 0 && !options.signal.aborted; end -= CHUNK) {
      const chunk = uids.slice(Math.max(0, end - CHUNK), end);
      leftOut += await importChunk(ctx, { folder, selection, source: 'initialSync' }, chunk, options);
    }
  };
  await withSelected(ctx.session, folder.path, importAll, (refusal) => {
    if (refusal.command !== 'SELECT') throw refusal;
  });
  return leftOut;
}

async function importChunk(
  ctx: SyncContext,
  target: IngestTarget,
  uids: number[],
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
  onProgress(0);
  return leftOut.length;
}
