import { inLease } from '../db/lease.ts';
import { fetchMetaOf, fetchNewestMeta, type MessageMeta } from '../imap/fetch.ts';
import { searchUids } from '../imap/search.ts';
import { trySelect } from '../imap/select.ts';
import type { FolderSnapshot } from '../imap/list.ts';
import type { ImapSession } from '../imap/session.ts';
import type { SyncContext } from './context.ts';
import { type FolderState, loadFolders, updateFolder } from './store/folders.ts';
import { baselineLocation, insertLocations } from './store/locations.ts';

/** Messages of one transaction. */
const CHUNK = 1000;

/** Newest messages of a folder that are noted while the account connects. */
const NEWEST = 500;

/** What lies in a folder at the moment of connecting, as far as it was read. */
export interface NewestMail {
  metas: MessageMeta[];
  /** it is all that the folder holds */
  complete: boolean;
}

/**
 * Reads the newest messages of each folder while the account connects, until the given time: a mail that is moved right
 * after that is known then. The rest is scanned later.
 */
export async function readNewest(
  session: ImapSession,
  folders: FolderSnapshot[],
  until: number,
): Promise<Map<string, NewestMail>> {
  const newest = new Map<string, NewestMail>();
  const inboxFirst = [...folders].sort((a, b) => Number(b.role === 'INBOX') - Number(a.role === 'INBOX'));
  for (const { path, selectable, status } of inboxFirst) {
    if (Date.now() >= until) break;
    if (!selectable || !status || status.messages === 0) continue;
    const selected = await trySelect(session, path);
    if (!selected || selected.uidValidity !== status.uidValidity) continue;
    const metas = await fetchNewestMeta(session, selected.exists, NEWEST);
    const baseline = metas.filter((meta) => meta.uid < status.uidNext);
    newest.set(path, { metas: baseline, complete: selected.exists <= NEWEST });
  }
  return newest;
}

/** Whether every folder's baseline is known. */
export function isScanned(folders: FolderState[]): boolean {
  return folders.every((folder) => !folder.selectable || folder.scannedFrom === 1);
}

/**
 * Notes what lay in each folder before the account connected, newest first, without taking it in: so that a later move
 * of it is not taken for new mail (QUALITY "Sync" 5). Goes on where it was stopped. Needs a session of its own.
 */
export async function scanBaseline(ctx: SyncContext, signal: AbortSignal): Promise<void> {
  for (const folder of await loadFolders(ctx.db, ctx.account.id)) {
    if (signal.aborted) return;
    if (folder.selectable && folder.scannedFrom !== 1) await scanFolder(ctx, folder, signal);
  }
}

async function scanFolder(ctx: SyncContext, folder: FolderState, signal: AbortSignal): Promise<void> {
  const selected = await trySelect(ctx.session, folder.path);
  // What the server does not open cannot be known, and must not keep the rest waiting.
  if (!selected) return inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, folder.id, { scannedFrom: 1 }));
  // Under other UIDs there is nothing to note: the watch maps the folder anew, or reads its baseline first.
  if (selected.uidValidity !== folder.uidValidity) return;
  const uids = await searchUids(ctx.session, folder.scannedFrom ?? 1);
  for (let end = uids.length; end > 0 && !signal.aborted; end -= CHUNK) {
    const chunk = uids.slice(Math.max(0, end - CHUNK), end);
    const metas = await fetchMetaOf(ctx.session, chunk);
    await inLease(ctx.db, ctx.lease, async (tx) => {
      await insertLocations(
        tx,
        metas.map((meta) => baselineLocation(ctx.account.id, folder.id, meta)),
      );
      await updateFolder(tx, folder.id, { scannedFrom: end > CHUNK ? chunk[0] : 1 });
    });
  }
  if (uids.length === 0) await inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, folder.id, { scannedFrom: 1 }));
}
