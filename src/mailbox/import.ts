import { fetchMetaOf, MAX_UID } from '../imap/fetch.ts';
import { searchUids } from '../imap/search.ts';
import { trySelect } from '../imap/select.ts';
import type { SyncContext } from './context.ts';
import { ingest } from './ingest/ingest.ts';
import { type FolderState, loadFolders } from './store/folders.ts';
import { locatedUids } from './store/locations.ts';

export interface ImportOptions {
  /** mail that arrived since then is imported */
  since: Date;
  signal: AbortSignal;
  /** called after each batch that was committed */
  onProgress(imported: number): void;
}

/** Messages whose metadata is asked for at once. */
const CHUNK = 500;

/**
 * Imports mail from before the connect, folder by folder (INBOX first), newest first. What is stored already is passed
 * over, so it goes on where it was stopped. Sends no `email.new` (SPEC "Initial sync").
 */
export async function importMail(ctx: SyncContext, options: ImportOptions): Promise<void> {
  const folders = (await loadFolders(ctx.db, ctx.account.id)).filter((folder) => folder.selectable);
  const rank = (folder: FolderState) => (folder.role === 'INBOX' ? 0 : folder.role === 'ALL' ? 2 : 1);
  for (const folder of folders.sort((a, b) => rank(a) - rank(b))) {
    if (options.signal.aborted) return;
    await importFolder(ctx, folder, options);
  }
}

async function importFolder(
  ctx: SyncContext,
  folder: FolderState,
  { since, signal, onProgress }: ImportOptions,
): Promise<void> {
  const selected = await trySelect(ctx.session, folder.path);
  if (!selected || selected.exists === 0) return;
  if (folder.uidValidity !== null && selected.uidValidity !== folder.uidValidity) return;
  // SEARCH SINCE knows days only, in the server's own time zone: ask for one more and compare INTERNALDATE.
  const asked = new Date(since.getTime() - 24 * 3600 * 1000);
  const uids = await searchUids(ctx.session, folder.baselineUidNext ?? MAX_UID + 1, asked);
  for (let end = uids.length; end > 0 && !signal.aborted; end -= CHUNK) {
    const chunk = uids.slice(Math.max(0, end - CHUNK), end);
    const placed = await locatedUids(ctx.db, folder.id, chunk, true);
    const metas = await fetchMetaOf(
      ctx.session,
      chunk.filter((uid) => !placed.has(uid)),
    );
    const wanted = metas.filter((meta) => meta.internalDate >= since).sort((a, b) => b.uid - a.uid);
    await ingest(ctx, folder, wanted, 'imported', async (taken) => onProgress(taken));
    onProgress(0);
  }
}
