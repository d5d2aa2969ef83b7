import { inLease } from '../db/coordination/lease.ts';
import { fetchMetaAmong, fetchNewestMeta, type MessageMeta } from '../imap/fetch.ts';
import type { FolderSnapshot } from '../imap/list.ts';
import { listUids } from '../imap/list-uids.ts';
import type { ImapSession } from '../imap/session.ts';
import type { SyncContext } from './context.ts';
import { fetchMetaDue } from './ingest/metas.ts';
import { locationRow } from './ingest/rows.ts';
import { type Selection, withSelected } from './selected.ts';
import { atMost, type FolderState, hasSameUids, loadFolders, updateFolder } from './store/folders.ts';
import { insertLocations } from './store/locations.ts';

/** Messages of one transaction. */
const CHUNK = 1000;

/** Newest messages of a folder that are recorded while the account connects. */
const NEWEST = 500;

/** The newest messages of a folder when the account connects, as far as they were read. */
export interface NewestMail {
  metas: MessageMeta[];
  /** these are all messages of the folder */
  complete: boolean;
}

/**
 * Reads the newest messages of each folder while the account connects, until the given time (ms of `performance.now()`),
 * so an email that is moved right after that is known. The rest is scanned later.
 */
export async function readNewest(
  session: ImapSession,
  folders: FolderSnapshot[],
  until: number,
): Promise<Map<string, NewestMail>> {
  const newest = new Map<string, NewestMail>();
  const inboxFirst = [...folders].sort((a, b) => Number(b.role === 'INBOX') - Number(a.role === 'INBOX'));
  for (const { path, selectable, status } of inboxFirst) {
    if (performance.now() >= until) break;
    if (!selectable || !status || status.messages === 0) continue;
    try {
      await withSelected(session, path, async (selection) => {
        if (selection.uidValidity !== status.uidValidity) return;
        const metas = await fetchNewestMeta(session, NEWEST);
        const baseline = metas.filter((meta) => meta.uid < status.uidNext);
        newest.set(path, { metas: baseline, complete: metas.length >= selection.exists });
      });
    } catch (error) {
      // a server that hangs up at a message is connected all the same
      if (session.client.usable) throw error;
      break;
    }
  }
  return newest;
}

/** Whether every folder's baseline is known. */
export function isScanned(folders: FolderState[]): boolean {
  return folders.every((folder) => !folder.selectable || folder.scannedFrom === 1);
}

/**
 * Records the messages that each folder held before the account connected, newest first, without ingesting them: a later
 * move of one is then not reported as a new email. Continues where it was stopped. Needs a separate session.
 */
export async function scanBaseline(ctx: SyncContext, signal: AbortSignal): Promise<void> {
  for (const folder of await loadFolders(ctx.db, ctx.account.id)) {
    if (signal.aborted) return;
    if (folder.selectable && folder.scannedFrom !== 1) await scanFolder(ctx, folder, signal);
  }
}

async function scanFolder(ctx: SyncContext, folder: FolderState, signal: AbortSignal): Promise<void> {
  let refused: string | undefined;
  const scan = async (selection: Selection) => {
    // Under other UIDs there is nothing to record: the watch first maps the UIDs, or reads the baseline.
    if (selection.uidValidity === folder.uidValidity) await scanSelected(ctx, folder, selection, signal);
  };
  await withSelected(ctx.session, folder.path, scan, ({ command }) => (refused = command));
  // A folder that the server does not open must not delay the others; one that it does not show now is scanned later.
  if (refused === 'SELECT') await saveScannedFrom(ctx, folder, [], { scannedFrom: 1, readAt: null });
}

async function scanSelected(
  ctx: SyncContext,
  folder: FolderState,
  selection: Selection,
  signal: AbortSignal,
): Promise<void> {
  const below = folder.scannedFrom ?? 1;
  const all = below > 1 ? (await listUids(ctx.session)).uids : [];
  const uids = all.filter((uid) => uid < below);
  for (let end = uids.length; end > 0 && !signal.aborted; end -= CHUNK) {
    const chunk = uids.slice(Math.max(0, end - CHUNK), end);
    // the few that are left may be damaged: what the scan lacks is baseline later, too
    const fetch = (group: number[]) => fetchMetaAmong(ctx.session, group, { others: all, onRefused: () => {} });
    const metas = await fetchMetaDue(ctx, { folder, selection }, chunk, fetch);
    const isSaved = await saveScannedFrom(ctx, folder, metas, {
      scannedFrom: end > CHUNK ? (chunk[0] ?? 1) : 1,
      readAt: selection.highestModseq,
    });
    if (!isSaved) return;
  }
  if (uids.length === 0) await saveScannedFrom(ctx, folder, [], { scannedFrom: 1, readAt: null });
}

/** False: another process has mapped the folder to other UIDs since it was opened. */
async function saveScannedFrom(
  { db, lease, account }: SyncContext,
  folder: FolderState,
  metas: MessageMeta[],
  { scannedFrom, readAt }: { scannedFrom: number; readAt: bigint | null },
): Promise<boolean> {
  const rows = metas.map((meta) => locationRow(account.id, folder.id, meta, null));
  return inLease(db, lease, async (tx) => {
    if (!(await hasSameUids(tx, folder))) return false;
    await insertLocations(tx, rows);
    // the watch may have read later changes of these messages
    const modseq = readAt === null ? {} : { highestModseq: atMost(readAt) };
    await updateFolder(tx, folder.id, { scannedFrom, ...modseq });
    return true;
  });
}
