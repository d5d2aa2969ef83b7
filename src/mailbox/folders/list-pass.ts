import { inLease } from '../../db/coordination/lease.ts';
import { type FolderSnapshot, type FolderStatus, listFoldersWithStatus } from '../../imap/list.ts';
import type { ImapSession } from '../../imap/session.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import {
  type FolderFacts,
  type FolderState,
  loadAllFolders,
  loadFolders,
  saveStatusCounters,
} from '../store/folders.ts';
import { applyPlan, changedSince } from './apply.ts';
import { assertCurrent, chosenOf } from './choice.ts';
import { undeliveredIn } from '../ingest/fetch.ts';
import { markApplied, removeExcluded } from './exclude.ts';
import { type FolderPlan, isDemoted, planFolders } from './plan.ts';
import { findRenames, withoutOngoing } from './renames.ts';
import { loadOngoing } from './reservations.ts';

/** What a pass over the folder list found. */
export interface FolderListPass {
  folders: Map<string, FolderState>;
  /** ids of folders whose counters say that something changed */
  dirty: Set<string>;
  /** the counters of the dirty folders */
  counters: Map<string, FolderStatus>;
  /** a folder with mail was deleted */
  missing: boolean;
}

/**
 * The list of a reused connection lacks a stored folder, the mail in one, or the counters of one. On such a connection some servers
 * permanently omit a folder that was renamed while they listed, or permanently list one that was deleted then (Dovecot,
 * whose STATUS fails for it): the list of a new connection decides.
 */
export class DoubtfulList extends MailError {
  constructor() {
    super('provider_error', 'imap', 'the folders changed while the IMAP server listed them; retry later');
    this.name = 'DoubtfulList';
  }
}

/**
 * Compares the folder list with its counters: saves created, renamed and deleted folders with their events, and returns
 * which folders changed inside.
 * @throws DoubtfulList when a folder or its counters are missing on a connection that was not opened for this pass;
 * MailError when the list of one that was lacks INBOX
 */
export async function syncFolders(ctx: SyncContext, { freshSession = false } = {}): Promise<FolderListPass> {
  for (;;) {
    const pass = await listOnce(ctx, freshSession);
    if (pass) return pass;
  }
}

/** Undefined: this API changed the folders while they were listed, so the list may be from before. */
async function listOnce(ctx: SyncContext, freshSession: boolean): Promise<FolderListPass | undefined> {
  const { stored, listed } = await listChosen(ctx, freshSession);
  assertCounted(ctx.session, listed, freshSession);
  const renamed = await findRenames(ctx, stored, listed);
  const differences = planFolders(stored, listed, renamed);
  const cameOrWent = differences.created.length > 0 || takesMailAway(differences);
  const ongoing = cameOrWent ? await loadOngoing(ctx.db, ctx.account.id) : [];
  const since = await loadAllFolders(ctx.db, ctx.account.id);
  const stillPlanned = withoutOngoing(differences, stored, ongoing);
  const isDoubtful = takesMailAway(stillPlanned) && !freshSession;
  // with those whose deletion was seen before, and has not been finished
  const plan = { ...stillPlanned, deleted: [...stillPlanned.deleted, ...since.deleted] };
  let missing = false;
  const isChanged = plan.created.length + plan.changed.length + plan.deleted.length > 0;
  if (isChanged) {
    if (changedSince(stored, since.folders)) return undefined;
    if (isDoubtful) throw new DoubtfulList();
    const applied = await applyPlan(ctx, plan, stored);
    if (!applied) return undefined;
    missing = applied.missing;
  }
  const changed = plan.kept.filter(({ folder, facts }) => isDirty(ctx, folder, facts));
  const dirty = new Set(changed.map(({ folder }) => folder.id));
  for (const { folder } of plan.changed) dirty.add(folder.id);
  const isSaved = await saveCounters(ctx, plan, dirty);
  await choiceIsApplied(ctx, since.excluded);
  const current = isChanged || isSaved ? await loadFolders(ctx.db, ctx.account.id) : since.folders;
  const folders = new Map(current.map((folder) => [folder.id, folder]));
  const before = new Set(stored.map((folder) => folder.id));
  for (const folder of folders.values()) if (!before.has(folder.id) && folder.totalCount > 0) dirty.add(folder.id);
  const counters = new Map(
    plan.kept.flatMap(({ folder, facts }) => (dirty.has(folder.id) && facts.status ? [[folder.id, facts.status]] : [])),
  );
  return { folders, dirty, counters, missing };
}

/** @throws DoubtfulList when a reused connection lacks the counters of a folder that it had before */
function assertCounted(session: ImapSession, listed: FolderSnapshot[], freshSession: boolean): void {
  const uncounted = listed.filter(({ selectable, status }) => selectable && !status).map(({ path }) => path);
  if (freshSession) session.withoutCounters = new Set(uncounted);
  else if (uncounted.some((path) => !session.withoutCounters?.has(path))) throw new DoubtfulList();
}

/**
 * The stored folders and the listed ones, without those that the account excludes: stored ones are removed first.
 * @throws DoubtfulList when one is excluded by the list of a reused connection, which may lack the folder above it
 */
async function listChosen(
  ctx: SyncContext,
  freshSession: boolean,
): Promise<{ stored: FolderState[]; listed: FolderSnapshot[] }> {
  const { session, account } = ctx;
  for (;;) {
    const stored = await loadFolders(ctx.db, account.id);
    const unchosen = new Set<string>();
    const choose = (all: FolderSnapshot[]) => {
      if (!showsInbox(all, stored)) throw freshSession ? inboxUnlisted() : new DoubtfulList();
      const chosen = new Set(chosenOf(account.choice?.folders, all));
      for (const folder of all) if (!chosen.has(folder)) unchosen.add(folder.path);
      return [...chosen];
    };
    const listed = withoutUndelivered(ctx, stored, await listFoldersWithStatus(session, { choose }));
    const excluded = stored.filter(({ path }) => unchosen.has(path)).map(({ id }) => id);
    if (excluded.length === 0) return { stored, listed };
    if (!freshSession) throw new DoubtfulList();
    await removeExcluded(ctx, excluded);
  }
}

function takesMailAway({ deleted, changed }: FolderPlan): boolean {
  return deleted.length > 0 || changed.some(isDemoted);
}

/**
 * Whether a whole list may be that of this mailbox. INBOX is in every one (RFC 9051 6.3.9): a server that lists no folder, or lacks
 * INBOX, cannot reach the mailbox just now, and its folders are not deleted.
 */
function showsInbox(listed: FolderSnapshot[], stored: FolderState[]): boolean {
  const isInbox = ({ role, selectable }: Pick<FolderState, 'role' | 'selectable'>) => role === 'INBOX' && selectable;
  return stored.some(isInbox) ? listed.some(isInbox) : listed.length > 0 || stored.length === 0;
}

/** The failure of a list that lacks INBOX. */
export function inboxUnlisted(): MailError {
  return new MailError('provider_error', 'imap', 'the IMAP server does not list INBOX; retry later');
}

/** The folders, with counts of the messages that the store can have. */
function withoutUndelivered(ctx: SyncContext, stored: FolderState[], listed: FolderSnapshot[]): FolderSnapshot[] {
  const byPath = new Map(stored.map((folder) => [folder.path, folder]));
  return listed.map((snapshot) => {
    const { path, status } = snapshot;
    const folder = byPath.get(path);
    if (!folder || !status) return snapshot;
    const messages = status.messages - undeliveredIn(ctx, { folder, selection: status }).count();
    return { ...snapshot, status: { ...status, messages, unseen: Math.min(status.unseen, messages) } };
  });
}

/** Ends removals of excluded folders that were interrupted, and records that the folders which a new choice adds are stored. */
async function choiceIsApplied(ctx: SyncContext, excluded: readonly FolderState[]): Promise<void> {
  const { db, lease, account } = ctx;
  const { id, choice } = account;
  if (excluded.length > 0) await removeExcluded(ctx, []);
  if (!choice || choice.isApplied) return;
  await inLease(db, lease, async (tx) => {
    await assertCurrent(tx, id, choice);
    await markApplied(tx, id);
  });
  choice.isApplied = true;
}

function isDirty(ctx: SyncContext, folder: FolderState, { status, selectable }: FolderFacts): boolean {
  if (!selectable) return false;
  // It may open all the same.
  if (!status || !folder.flagsRead) return true;
  if (folder.uidNext === null || status.uidValidity !== folder.uidValidity || status.uidNext > folder.uidNext)
    return true;
  if (status.messages !== folder.totalCount || undeliveredIn(ctx, { folder, selection: status }).isAnyDue())
    return true;
  return status.highestModseq === null
    ? status.unseen !== folder.unreadCount
    : status.highestModseq !== folder.highestModseq;
}

/**
 * Saves the counters of a folder in which its pass found nothing to do: a counter was stored wrong, or the server counts
 * in another way. `folder` is as it was when it was listed.
 */
export function saveUnexplained(ctx: SyncContext, folder: FolderState, status: FolderStatus): Promise<void> {
  return inLease(ctx.db, ctx.lease, (tx) => saveStatusCounters(tx, folder, status));
}

/** Saves the counters of folders that are not about to be synced, since a sync counts its folder; false: none differs. */
async function saveCounters(ctx: SyncContext, plan: FolderPlan, dirty: Set<string>): Promise<boolean> {
  const differing = plan.kept.filter(
    ({ folder, facts }) =>
      !dirty.has(folder.id) &&
      facts.status &&
      (facts.status.messages !== folder.totalCount || facts.status.unseen !== folder.unreadCount),
  );
  if (differing.length === 0) return false;
  await inLease(ctx.db, ctx.lease, async (tx) => {
    for (const { folder, facts } of differing) if (facts.status) await saveStatusCounters(tx, folder, facts.status);
  });
  return true;
}
