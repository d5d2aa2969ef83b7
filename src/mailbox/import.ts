import { DAY } from '../duration.ts';
import { fetchMetaAmong, fetchMetaIfSent, type MessageMeta } from '../imap/fetch.ts';
import { leftOutMessages, listUidsIn } from '../imap/list-uids.ts';
import { refusedAs, refusedAsMissing } from '../imap/response-codes.ts';
import { isMissing, selectFolder } from '../imap/select.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { PartUnavailable } from '../outage.ts';
import type { SyncContext } from './context.ts';
import { ingest, type IngestTarget } from './ingest/ingest.ts';
import { undeliveredIn } from './ingest/fetch.ts';
import { fetchMetaDue } from './ingest/metas.ts';
import { isTokenEnd } from './logins.ts';
import { assertSelected, type Selection, selectionOf, withSelected } from './selected.ts';
import { type FolderState, loadFolder, loadFolders } from './store/folders.ts';
import { uidsToImport } from './store/import-folders.ts';
import { locatedUids, newestLocations } from './store/locations.ts';
import { syncOnce } from './sync-pass.ts';

export interface ImportOptions {
  /** messages that arrived since then are imported; null: however old */
  since: Date | null;
  /** messages that arrived before then are imported; left out: up to the connect */
  until?: Date | null;
  signal: AbortSignal;
  /** called after each batch that was committed */
  onProgress(imported: number): void;
  /** left out: all folders, as the initial sync */
  run?: ImportSteps;
}

/** What an import of chosen folders stores of its progress. */
export interface ImportSteps {
  importId: string;
  /** ids of the folders to read */
  folders: ReadonlySet<string>;
  /** how many messages of a folder are left */
  onListed(folderId: string, left: number): Promise<void>;
  /** messages that were read and not stored: they are outside the window, or stored already */
  onSkipped(folderId: string, count: number): Promise<void>;
  /** a folder was read completely: `readBelow` is its UIDNEXT, or above its highest UID; null: unknown */
  onDone(folderId: string, readBelow: number | null): Promise<void>;
}

/** Messages whose metadata is requested in one FETCH. */
const CHUNK = 500;

/**
 * Imports messages from before the connect, folder by folder (INBOX first), newest first. Stored messages are skipped, so
 * it continues where it was stopped. A folder that cannot be read now does not stop the others. Emits no `email.new`.
 * @throws PartUnavailable when the storage had no room for some messages, MailError when a folder could not be read
 *   completely, both once all others are imported; MailError; ImportStopped
 */
export async function importMail(ctx: SyncContext, options: ImportOptions): Promise<void> {
  const done: Imported = { losses: 0, leftOut: 0, changed: new Set() };
  for (const folder of await foldersToRead(ctx, options)) {
    if (options.signal.aborted) return;
    await importFolder(ctx, folder, options, done);
  }
  if (done.unread) throw done.unread;
  if (done.leftOut > 0) throw new PartUnavailable('storage', { detail: 'the storage is full', full: true });
}

/**
 * Counts the messages of folders that are left to import, before the first is read.
 * @throws MailError
 */
export async function countMail(ctx: SyncContext, options: ImportOptions & { run: ImportSteps }): Promise<void> {
  for (const folder of await foldersToRead(ctx, options)) {
    if (options.signal.aborted) return;
    await withSelected(ctx.session, folder.path, async (selection) => {
      if (selection.exists > 0) await listWanted(ctx, folder, options);
    });
  }
}

async function foldersToRead(ctx: SyncContext, { run }: ImportOptions): Promise<FolderState[]> {
  const folders = (await loadFolders(ctx.db, ctx.account.id)).filter(
    ({ id, selectable }) => selectable && (run?.folders.has(id) ?? true),
  );
  const rank = (folder: FolderState) => (folder.role === 'INBOX' ? 0 : folder.role === 'ALL' ? 2 : 1);
  return folders.sort((a, b) => rank(a) - rank(b));
}

/** Connections that may end in one attempt: a message at which the server hangs up is found by requesting fewer and fewer together. */
const MOST_LOSSES = 6;

interface Imported {
  /** connections that have ended */
  losses: number;
  /** messages for which the storage has no room */
  leftOut: number;
  /** ids of folders that the server has changed or deleted, as an attempt to read them showed */
  changed: Set<string>;
  /** why a folder could not be read completely */
  unread?: MailError;
}

async function importFolder(
  ctx: SyncContext,
  folder: FolderState,
  options: ImportOptions,
  done: Imported,
): Promise<void> {
  const before = { ...done };
  let readBelow: number | null = null;
  try {
    const now = done.changed.has(folder.id) ? await syncedFolder(ctx, folder) : folder;
    if (now) readBelow = await readFolder(ctx, now, options, done);
  } catch (error) {
    if (!(error instanceof MailError)) throw error;
    if (!ctx.session.client.usable) {
      await renewAfterLoss(ctx, options, done, error);
      return importFolder(ctx, folder, options, done);
    }
    if (isChanged(error) && !done.changed.has(folder.id)) {
      done.changed.add(folder.id);
      return importFolder(ctx, folder, options, done);
    }
    // Not ours to read, or deleted since: no later attempt would find more.
    if (!refusedAs('forbidden', error) && !refusedAsMissing(error)) done.unread = error;
  }
  const isRead = done.unread === before.unread && done.leftOut === before.leftOut;
  if (isRead && !options.signal.aborted) {
    await options.run?.onDone(folder.id, readBelow);
  }
}

/** Reads a folder in rounds, the last of which finds nothing. Returns its UIDNEXT, or above its highest UID; null: unknown. */
async function readFolder(
  ctx: SyncContext,
  folder: FolderState,
  options: ImportOptions,
  done: Imported,
): Promise<number | null> {
  const [read, left] = [new Set<number>(), new Set<number>()];
  let readBelow: number | null = null;
  for (let hasMore = true; hasMore && !options.signal.aborted; ) {
    const [newest] = await newestLocations(ctx.db, folder.id, 1);
    const selection = selectionOf(ctx.session, await selectFolder(ctx.session, folder.path));
    // UIDNEXT stays behind on some servers: what was known before is listed in this round
    readBelow = selection.uidNext && Math.max(selection.uidNext, (newest?.uid ?? 0) + 1);
    hasMore = await importRound(ctx, { folder, selection, read, left, done }, options);
  }
  return readBelow;
}

/** The UIDs of a folder are others than those that the store has. */
class UidsChanged extends MailError {
  constructor() {
    super('provider_error', 'imap', 'the UIDs of a folder have changed');
    this.name = 'UidsChanged';
  }
}

/** Whether a sync pass may find the folder at another path, with other UIDs, or deleted. */
const isChanged = (error: MailError) => isMissing(error) || error instanceof UidsChanged;

/** The folder after a sync pass; undefined: it was deleted, or can no longer hold messages. */
async function syncedFolder(ctx: SyncContext, { id, path }: FolderState): Promise<FolderState | undefined> {
  await syncOnce(ctx, { changed: new Set([path]) });
  const folder = await loadFolder(ctx.db, id);
  return folder?.selectable && folder.vacating === null ? folder : undefined;
}

/** Opens a new connection, unless the last one has ended for another reason than what was requested. */
async function renewAfterLoss(
  ctx: SyncContext,
  { signal }: ImportOptions,
  done: Imported,
  error: MailError,
): Promise<void> {
  if (signal.aborted || isTokenEnd(ctx.session.token, error)) throw error;
  if (error.flooded || ++done.losses > MOST_LOSSES) throw error;
  await ctx.session.renew();
}

interface Round {
  folder: FolderState;
  selection: Selection;
  /** UIDs whose messages were requested in this attempt, or are not wanted */
  read: Set<number>;
  /** those of them that were not delivered, or for which the storage has no room: a later attempt reads them */
  left: Set<number>;
  done: Imported;
}

/**
 * Imports the messages that the folder holds and that were not read yet. The folder is selected anew for each round: the
 * last one finds nothing left, under the same UIDVALIDITY.
 * @returns whether there were any
 */
async function importRound(
  ctx: SyncContext,
  { folder, selection, read, left, done }: Round,
  options: ImportOptions,
): Promise<boolean> {
  if (selection.exists === 0) return false;
  if (folder.uidValidity !== null && selection.uidValidity !== folder.uidValidity) {
    // A sync pass maps the stored UIDs first.
    throw new UidsChanged();
  }
  const { uids, listed, complete } = await listWanted(ctx, folder, options, { read, left });
  const before = read.size;
  for (let end = uids.length; end > 0 && !options.signal.aborted; end -= CHUNK) {
    const chunk = uids.slice(Math.max(0, end - CHUNK), end);
    const target = { folder, selection, source: 'initialSync', importId: options.run?.importId } as const;
    const { leftOut, delayed } = await importChunk(ctx, target, { uids: chunk, listed, read, left }, options);
    done.leftOut += leftOut;
    if (delayed > 0) done.unread = notDelivered(delayed);
  }
  // what is listed is imported first
  const isUnread = uids.length > 0 ? read.size === before : !complete;
  if (isUnread && !options.signal.aborted) throw leftOutMessages();
  return uids.length > 0;
}

/**
 * UIDs of messages of the selected folder that are left to import, ascending, and of all that are `listed`; some may be outside the
 * window by a day.
 */
async function listWanted(
  ctx: SyncContext,
  folder: FolderState,
  { since, until, run }: ImportOptions,
  { read, left }: Pick<Round, 'read' | 'left'> = { read: new Set(), left: new Set() },
): Promise<{ uids: number[]; listed: number[]; complete: boolean }> {
  // SEARCH compares days in the server's time zone (RFC 9051 6.4.4): request one more on each side and compare INTERNALDATE.
  const { uids: listed, complete } = await listUidsIn(ctx.session, {
    ...(since ? { since: new Date(since.getTime() - DAY) } : {}),
    ...(until ? { before: new Date(until.getTime() + 2 * DAY) } : {}),
  });
  const unread = listed.filter((uid) => !read.has(uid));
  const uids = await uidsToImport(ctx.db, folder, unread);
  await run?.onListed(folder.id, uids.length + left.size);
  return { uids, listed, complete };
}

function notDelivered(messages: number): MailError {
  return new MailError('provider_error', 'imap', `the IMAP server does not deliver ${messages} messages of a folder`);
}

async function importChunk(
  ctx: SyncContext,
  target: IngestTarget,
  { uids, listed, read, left }: Pick<Round, 'read' | 'left'> & { uids: number[]; listed: number[] },
  { since, until, onProgress, run }: ImportOptions,
): Promise<{ leftOut: number; delayed: number }> {
  assertSelected(ctx.session, target.selection);
  const located = await locatedUids(ctx.db, target.folder.id, uids, true);
  const undelivered = undeliveredIn(ctx, target);
  const due = uids.filter((uid) => !located.has(uid) && undelivered.isDue(uid));
  // those that failed before say nothing about the folder
  const failedBefore = due.filter(undelivered.isPending);
  const others = due.filter((uid) => !undelivered.isPending(uid));
  const onRefused = undelivered.failed;
  const metas = [
    ...(await fetchMetaDue(ctx, target, others, (group) =>
      fetchMetaAmong(ctx.session, group, { others: listed, onRefused }),
    )),
    ...(await fetchMetaDue(ctx, target, failedBefore, (group) => fetchMetaIfSent(ctx.session, group, onRefused))),
  ];
  const isWanted = ({ internalDate }: MessageMeta) =>
    (!since || internalDate >= since) && (!until || internalDate < until);
  const wanted = metas.filter(isWanted).sort((a, b) => b.uid - a.uid);
  const skipped = [...located, ...metas.filter((meta) => !isWanted(meta)).map(({ uid }) => uid)];
  for (const uid of skipped) undelivered.forget(uid);
  const { leftOut } = await ingest(ctx, target, wanted, onProgress);
  for (const uid of [...leftOut, ...uids.filter(undelivered.isPending)]) left.add(uid);
  for (const uid of [...skipped, ...wanted.map((meta) => meta.uid), ...left]) read.add(uid);
  await run?.onSkipped(target.folder.id, skipped.length);
  onProgress(0);
  return { leftOut: leftOut.length, delayed: undelivered.pending(uids).filter(({ isDelayed }) => isDelayed).length };
}
