import type { DifferenceKind } from '../contract/account.ts';
import { inLease } from '../db/coordination/lease.ts';
import { fetchMetaAmong, MAX_UID, type MessageMeta } from '../imap/fetch.ts';
import { listFolders, statusOf } from '../imap/list.ts';
import { listUids } from '../imap/list-uids.ts';
import { changeEmails } from './change-emails.ts';
import type { SyncContext } from './context.ts';
import { chosenOf } from './folders/choice.ts';
import { remapFolder } from './folders/uidvalidity.ts';
import { isSameMessage } from './ingest/match.ts';
import { fetchMetaDue } from './ingest/metas.ts';
import { type Selection, withSelected } from './selected.ts';
import { findUnlocated, findWrongFlags, missUnlocated } from './store/emails.ts';
import {
  findMiscounted,
  type FolderState,
  invalidateFolder,
  loadFolders,
  recountLocations,
  saveStatusCounters,
} from './store/folders.ts';
import { correctThreadSummaries, findWrongThreadSummaries } from './store/thread-summaries.ts';
import { changedFlags, knownUids, locationsAt } from './store/locations.ts';
import { syncOnce } from './sync-pass.ts';
import { applyVanished } from './vanished.ts';

/*
 * Compares all that is stored of a mailbox with the server, independent of the cursors, and has differences repaired by
 * the sync passes, with their events. The mailbox keeps changing during that: only what differs twice, with a sync pass in
 * between, is a difference. What the pass has resolved was a recent change, or a bug that every pass repairs: it is
 * counted separately. The store alone shows that it disagrees with itself, which no change explains.
 */

export interface Difference {
  /** empty: a folder that is not stored */
  folderId: string;
  kind: DifferenceKind;
  /** 0: the folder, or an email */
  uid: number;
}

export interface Verification {
  folders: number;
  messages: number;
  differences: number;
  /** of the differences, those that are there still after the repair */
  left: number;
  /** the number of differences of each kind */
  kinds: Partial<Record<DifferenceKind, number>>;
  /** what differed before the sync pass and no longer after it, of each kind */
  resolved: Partial<Record<DifferenceKind, number>>;
  /** the first of the differences */
  sample: Difference[];
}

/** Messages whose metadata is in memory at one time. */
const CHUNK = 1_000;
const SAMPLE = 50;

/**
 * Verifies and repairs a mailbox. Needs a session without other users; stops early, with the result so far, when `signal`
 * is aborted.
 * @throws MailError; LeaseLost
 */
export async function verifyMailbox(ctx: SyncContext, signal: AbortSignal): Promise<Verification> {
  const all = comparable(await loadFolders(ctx.db, ctx.account.id));
  const first = await compareFolders(ctx, all, signal);
  first.found = first.found.concat(await compareList(ctx));
  const ofStore = await compareStore(ctx);
  const lasting = await lastingOf(ctx, first.found, signal);
  const differences = [...lasting, ...ofStore.found];
  await repair(ctx, lasting);
  await ofStore.repair();
  const left = differences.length === 0 ? [] : await lastingOf(ctx, lasting, signal);
  const isLasting = new Set(lasting.map(keyOf));
  return {
    folders: all.length,
    messages: first.messages,
    differences: differences.length,
    left: left.length,
    kinds: countKinds(differences),
    resolved: countKinds(first.found.filter((difference) => !isLasting.has(keyOf(difference)))),
    sample: differences.filter(({ folderId }) => folderId !== '').slice(0, SAMPLE),
  };
}

const keyOf = ({ folderId, kind, uid }: Difference) => `${folderId} ${kind} ${uid}`;

function countKinds(differences: Difference[]): Verification['kinds'] {
  const counts: Verification['kinds'] = {};
  for (const { kind } of differences) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

function comparable(folders: FolderState[]): FolderState[] {
  return folders.filter(({ selectable, vacating }) => selectable && !vacating);
}

/** Compares the stored folders with the list of the server. */
async function compareList(ctx: SyncContext): Promise<Difference[]> {
  const stored = (await loadFolders(ctx.db, ctx.account.id)).filter(({ vacating }) => !vacating);
  const chosen = chosenOf(ctx.account.choice?.folders, await listFolders(ctx.session));
  const listed = new Set(chosen.map(({ path }) => path));
  const known = new Set(stored.map(({ path }) => path));
  const unknown = [...listed].filter((path) => !known.has(path));
  return [
    ...stored
      .filter(({ path }) => !listed.has(path))
      .map(({ id }) => ({ folderId: id, kind: 'folder_missing' as const, uid: 0 })),
    ...unknown.map(() => ({ folderId: '', kind: 'folder_not_stored' as const, uid: 0 })),
  ];
}

/** Where the store disagrees with itself, and its repair: emails that go are deleted by the next sync pass. */
async function compareStore(ctx: SyncContext): Promise<{ found: Difference[]; repair(): Promise<void> }> {
  const { db, account, lease } = ctx;
  const [folders, flagged, unlocated, threads] = [
    await findMiscounted(db, account.id),
    await findWrongFlags(db, account.id),
    await findUnlocated(db, account.id),
    await findWrongThreadSummaries(db, account.id),
  ];
  const ofEmails = (kind: DifferenceKind) => () => ({ folderId: '', kind, uid: 0 });
  return {
    found: [
      ...folders.map((folderId) => ({ folderId, kind: 'counters' as const, uid: 0 })),
      ...flagged.map(ofEmails('flags')),
      ...threads.map(ofEmails('counters')),
      ...unlocated.map(ofEmails('email_without_location')),
    ],
    async repair() {
      for (const id of folders) await inLease(db, lease, (tx) => recountLocations(tx, id));
      await correctFlags(ctx, flagged);
      await inLease(db, lease, (tx) => correctThreadSummaries(tx, account.id, threads));
      // the pass that follows may begin in this millisecond
      const since = new Date(Date.now() - 1);
      if (unlocated.length > 0) await inLease(db, lease, (tx) => missUnlocated(tx, account.id, since));
    },
  };
}

/** Of these differences, those that remain after a sync pass of their folders. */
async function lastingOf(ctx: SyncContext, before: Difference[], signal: AbortSignal): Promise<Difference[]> {
  const ids = new Set(before.map(({ folderId }) => folderId));
  const pathsOf = (folders: FolderState[]) => new Set(folders.map(({ path }) => path));
  const suspect = async () => comparable(await loadFolders(ctx.db, ctx.account.id)).filter(({ id }) => ids.has(id));
  await syncOnce(ctx, { changed: pathsOf(await suspect()) });
  if (before.length === 0) return [];
  const again = (await compareFolders(ctx, await suspect(), signal)).found.concat(await compareList(ctx));
  const seen = new Set(before.map(keyOf));
  return again.filter((difference) => seen.has(keyOf(difference)));
}

interface Compared {
  messages: number;
  found: Difference[];
}

async function compareFolders(ctx: SyncContext, folders: FolderState[], signal: AbortSignal): Promise<Compared> {
  const total: Compared = { messages: 0, found: [] };
  for (const folder of folders) {
    if (signal.aborted) break;
    const compared = await withSelected(ctx.session, folder.path, (selection) =>
      compareFolder(ctx, folder, selection, signal),
    );
    total.messages += compared?.messages ?? 0;
    total.found = total.found.concat(compared?.found ?? []);
  }
  return total;
}

/** Compares one folder. A folder that is not opened yet, or whose UIDs have changed, is left to the sync passes. */
async function compareFolder(
  ctx: SyncContext,
  folder: FolderState,
  selection: Selection,
  signal: AbortSignal,
): Promise<Compared> {
  if (folder.uidNext === null || folder.uidValidity !== selection.uidValidity) return { messages: 0, found: [] };
  const { uids, complete } = await listUids(ctx.session);
  const found: Difference[] = [];
  let unread = 0;
  for (let start = 0; start < uids.length; start += CHUNK) {
    if (signal.aborted) return { messages: start, found };
    const fetch = (group: number[]) => fetchMetaAmong(ctx.session, group, { others: uids });
    const metas = await fetchMetaDue(ctx, { folder, selection }, uids.slice(start, start + CHUNK), fetch);
    unread += metas.filter(({ seen }) => !seen).length;
    for (const difference of await compareMessages(ctx, folder, metas)) found.push(difference);
  }
  const present = new Set(uids);
  // a message that the server leaves out may be any of them
  const known = complete ? await knownUids(ctx.db, folder.id, 1, MAX_UID + 1) : [];
  const gone = known.filter((uid) => !present.has(uid));
  for (const uid of gone) found.push({ folderId: folder.id, kind: 'message_missing', uid });
  if (complete && (folder.totalCount !== uids.length || folder.unreadCount !== unread)) {
    found.push({ folderId: folder.id, kind: 'counters', uid: 0 });
  }
  return { messages: uids.length, found };
}

async function compareMessages(ctx: SyncContext, folder: FolderState, metas: MessageMeta[]): Promise<Difference[]> {
  const uids = metas.map(({ uid }) => uid);
  const stored = new Map((await locationsAt(ctx.db, folder.id, uids)).map((location) => [location.uid, location]));
  const flags = await changedFlags(ctx.db, folder.id, metas);
  const differ = (kind: DifferenceKind) => (uid: number) => ({ folderId: folder.id, kind, uid });
  const isExpected = (uid: number) => uid >= (folder.scannedFrom ?? MAX_UID) && uid < (folder.uidNext ?? 1);
  const others = metas.filter((meta) => {
    const location = stored.get(meta.uid);
    return location && !isSameMessage(meta, location);
  });
  return [
    ...uids.filter((uid) => !stored.has(uid) && isExpected(uid)).map(differ('message_not_stored')),
    ...others.map(({ uid }) => uid).map(differ('other_message')),
    ...flags.map(differ('flags')),
  ];
}

/** Prepares the folders for the next sync pass to find the differences. */
async function repair(ctx: SyncContext, differences: Difference[]): Promise<void> {
  const ids = new Set(differences.map(({ folderId }) => folderId));
  for (const folder of (await loadFolders(ctx.db, ctx.account.id)).filter(({ id }) => ids.has(id))) {
    const own = differences.filter(({ folderId }) => folderId === folder.id);
    const kinds = new Set(own.map(({ kind }) => kind));
    await withSelected(ctx.session, folder.path, async (selection) => {
      if (kinds.has('other_message')) await remapFolder(ctx, folder.id, selection);
      // a pass does not judge UIDs that the server may give to messages now
      const unused = own.filter(({ kind, uid }) => kind === 'message_missing' && uid >= (selection.uidNext ?? MAX_UID));
      await applyVanished(
        ctx,
        folder,
        unused.map(({ uid }) => uid),
      );
      await inLease(ctx.db, ctx.lease, (tx) => invalidateFolder(tx, folder.id));
      if (kinds.has('counters')) await repairCounters(ctx, folder);
    });
  }
}

/** The counters as they are on the server, unless this API changes the folder just now: the next STATUS has them then. */
async function repairCounters(ctx: SyncContext, folder: FolderState): Promise<void> {
  const status = await statusOf(ctx.session, folder.path);
  if (!status) return;
  await inLease(ctx.db, ctx.lease, (tx) => saveStatusCounters(tx, folder, status));
}

/** Emails whose flags differ from those of their locations. */
async function correctFlags(ctx: SyncContext, emailIds: string[]): Promise<void> {
  for (let start = 0; start < emailIds.length; start += CHUNK / 2) {
    const part = emailIds.slice(start, start + CHUNK / 2);
    await inLease(ctx.db, ctx.lease, (tx) =>
      changeEmails(tx, { lease: ctx.lease, emailIds: part, now: new Date() }, async () => {}),
    );
  }
}
