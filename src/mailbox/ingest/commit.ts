import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../../db/driver/client.ts';
import { toEmail } from '../../db/queries/mail/email-object.ts';
import { countBatch } from '../../db/coordination/import-state.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { type NewEvent, recordEvents } from '../../db/outbox.ts';
import { Writes } from '../../db/driver/writes.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { markCopiesIngested } from '../../outgoing/send-state.ts';
import { idsOfSend } from '../../outgoing/sent-mail.ts';
import { linkReports, reportsIn } from '../bounces.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncAccount, SyncContext } from '../context.ts';
import { addImported } from '../settings.ts';
import { afterEmails, emailRowOf, type NewEmailRows, writeEmails } from '../store/emails.ts';
import { type FolderState, writeArrived } from '../store/folders.ts';
import { dateLocations, insertLocations, writeLocations } from '../store/locations.ts';
import { deleteVanished } from '../store/vanished-locations.ts';
import { keysOf, undeliveredIn } from './fetch.ts';
import {
  type ArrivalMatch,
  type IngestTarget,
  loadMatchFacts,
  matchArrivals,
  type MatchFacts,
  matchRulesOf,
} from './match.ts';
import { buildEmail, type FetchedMail, isFromOwner, locationRow, threadFactsOf } from './rows.ts';
import { applySentCopies } from './sent-copies.ts';
import { type AssignedThread, assignThreads } from './threads.ts';

/** Messages of a folder with the sources that were fetched of them. */
export interface FetchedBatch {
  metas: MessageMeta[];
  /** UIDs whose sources were requested; those without a mail have vanished */
  requested: ReadonlySet<number>;
  mails: FetchedMail[];
  /** UIDs of messages for which the storage has no room: the cursor stays below them, so they are fetched again */
  leftOut?: readonly number[];
  /** UIDs of messages that the server has not delivered for a day: they are stored as older mail is, without an email */
  givenUp?: readonly number[];
  /** UIDs of messages that have left the folder since they were listed: they are not stored */
  gone?: readonly number[];
}

export interface CommittedBatch {
  /** emails that were new to the store */
  ingested: number;
  /** storage keys that no row names */
  unusedKeys: string[];
  /** the folder's cursor */
  uidNext: number | null;
}

/** The limit of the cursor when these messages are left out. */
export function cursorLimitOf(leftOut: readonly number[], limit = Infinity): number {
  return leftOut.reduce((lowest, uid) => Math.min(lowest, uid), limit);
}

/** Nothing was saved of a batch. */
export type Refetch =
  /** messages that turned out to be new without their source having been requested */
  | { needed: MessageMeta[] }
  /** messages that are not stored, of a folder that this API has changed since they were listed */
  | { doubted: number[] };

/**
 * Commits one batch: rows, locations, events and the folder's cursor.
 * @throws LeaseLost
 */
export function commitBatch(
  ctx: SyncContext,
  target: IngestTarget,
  { metas: listed, requested, mails, leftOut = [], givenUp = [], gone = [] }: FetchedBatch,
): Promise<CommittedBatch | Refetch> {
  const all = listed.filter(({ uid }) => !leftOut.includes(uid));
  const metas = all.filter(({ uid }) => !gone.includes(uid));
  const cursorLimit = cursorLimitOf(leftOut, target.cursorLimit);
  return inLease(ctx.db, ctx.lease, async (tx) => {
    const facts = await loadMatchFacts(tx, ctx.account.id, target, metas);
    // Another pass or call may have deleted the folder, and has then deleted its mail or found its new location.
    if (!facts) return { ingested: 0, unusedKeys: keysOf(mails), uidNext: target.folder.uidNext };
    const doubted = doubtedOf(target, metas, facts);
    if (doubted.length > 0) return { doubted };
    const matches = matchArrivals(matchRulesOf(ctx, target), metas, facts);
    const isNew = ({ uid }: MessageMeta) => matches.get(uid)?.kind === 'new';
    // a message that is not the copy of its send after all has no file here
    const ofSends = new Set(mails.filter(({ isOfSend }) => isOfSend).map(({ meta }) => meta.uid));
    const isRead = ({ uid }: MessageMeta) => requested.has(uid) && (!ofSends.has(uid) || isCopy(matches.get(uid)));
    const needed = metas.filter((meta) => isNew(meta) && !isRead(meta));
    if (needed.length > 0) return { needed };

    const now = new Date();
    const copies = await applySentCopies(
      tx,
      mails.filter(({ meta }) => isNew(meta)),
      matches,
    );
    const writes = new Writes();
    const rows = await buildRows(tx, ctx.account, target.folder, {
      ...{ mails: copies.mails, matches, authservId: facts.authservId },
      ...{ now, writes },
    });
    const located = locate(metas, matches, copies.mails, { rows, givenUp });
    const batch = { metas: all, rows, located, now, writes };
    const saved = await saveEmails(tx, ctx, target, batch);
    const uidNext = await saveProgress(tx, ctx, { ...target, cursorLimit }, { ...batch, ...saved });
    const known = mails.filter(({ meta }) => !isNew(meta));
    return { ingested: rows.length, unusedKeys: [...keysOf(known), ...copies.unusedKeys], uidNext };
  });
}

/** The UIDs that this API may have taken out of the folder since they were listed: the store would show them again. */
function doubtedOf(target: IngestTarget, metas: MessageMeta[], { localRevision, located }: MatchFacts): number[] {
  if (target.localRevision === undefined || target.localRevision === localRevision) return [];
  return metas.map(({ uid }) => uid).filter((uid) => !located.has(uid));
}

function isCopy(match: ArrivalMatch | undefined): boolean {
  return match?.kind === 'new' && match.copyOf !== null;
}

/** The rows of the new emails, in the order of `mails`. */
async function buildRows(
  tx: Tx,
  account: SyncAccount,
  folder: FolderState,
  {
    mails,
    matches,
    authservId,
    now,
    writes,
  }: {
    mails: FetchedMail[];
    matches: Map<number, ArrivalMatch>;
    authservId: string | null;
    now: Date;
    writes: Writes;
  },
): Promise<NewEmailRows[]> {
  const origins = mails.map(({ meta }) => {
    const match = matches.get(meta.uid);
    return match?.kind === 'new' ? match : NOT_BY_API;
  });
  const threaded = mails.map((mail, index) => {
    const { copyOf } = origins[index] ?? NOT_BY_API;
    return { ...threadFactsOf(mail), ...(copyOf ? { otherIds: idsOfSend(copyOf) } : {}) };
  });
  const threads = await assignThreads(tx, account, threaded, writes);
  const isSentFolder = folder.role === 'SENT' || folder.role === 'DRAFTS';
  const reports = await linkReports(
    tx,
    account.id,
    mails.map(({ parsed }, index) => {
      const { copyOf, sentByApi } = origins[index] ?? NOT_BY_API;
      return reportsIn(parsed, isSentFolder || copyOf !== null || sentByApi || isFromOwner(account, parsed.from));
    }),
  );
  return mails.map((mail, index) => {
    const { copyOf, draft, sentByApi } = origins[index] ?? NOT_BY_API;
    const thread = threads[index] as AssignedThread;
    return buildEmail(account, mail, thread, {
      ...{ isDraft: folder.role === 'DRAFTS', now, ...(reports[index] ?? NO_REPORT) },
      ...{ copyOf, draft, sentByApi, authservId },
    });
  });
}

const NO_REPORT = { bounce: null, complaint: null };
const NOT_BY_API = { copyOf: null, draft: null, sentByApi: false };

/** Where the messages of a batch are now. */
interface Located {
  /** messages that get a location in this folder */
  metas: MessageMeta[];
  /** their emails; baseline has none */
  emailIds: Map<number, string>;
  /** stored emails that moved or were copied here */
  movedIds: string[];
  /** of baseline whose emails `retention_days` has deleted: imports leave it out */
  baselineDates: Map<number, Date>;
}

function locate(
  metas: MessageMeta[],
  matches: Map<number, ArrivalMatch>,
  mails: FetchedMail[],
  { rows, givenUp }: { rows: NewEmailRows[]; givenUp: readonly number[] },
): Located {
  const emailIds = new Map(rows.map(({ email }, index) => [(mails[index] as FetchedMail).meta.uid, email.id]));
  const moved = metas.flatMap(({ uid }) => {
    const match = matches.get(uid);
    return match?.kind === 'email' ? [{ uid, emailId: match.emailId }] : [];
  });
  for (const { uid, emailId } of moved) emailIds.set(uid, emailId);
  const dated = metas.flatMap(({ uid }): [number, Date][] => {
    const match = matches.get(uid);
    return match?.kind === 'baseline' && match.date ? [[uid, match.date]] : [];
  });
  return {
    // A message that is new and has no mail vanished before it could be fetched.
    metas: metas.filter(
      ({ uid }) => emailIds.has(uid) || matches.get(uid)?.kind === 'baseline' || givenUp.includes(uid),
    ),
    emailIds,
    movedIds: moved.map(({ emailId }) => emailId),
    baselineDates: new Map(dated),
  };
}

/** What is saved of a batch. */
interface Batch {
  metas: MessageMeta[];
  rows: NewEmailRows[];
  located: Located;
  now: Date;
  /** what is sent to Postgres at the end, in one statement */
  writes: Writes;
}

interface Saved {
  /** the number of locations that `writes` inserts, as a part of its statement */
  inserted: SQL;
  /** the emails are there already */
  isFlushed: boolean;
}

/**
 * Saves new emails and all locations, with the events of those that moved; statements that can be deferred go to `writes`.
 */
async function saveEmails(
  tx: Tx,
  { account, lease }: SyncContext,
  { folder, source }: IngestTarget,
  { rows, located, now, writes }: Batch,
): Promise<Saved> {
  await writeEmails(writes, account.id, rows);
  const copies = rows.flatMap(({ email }) => (email.origin === 'api' ? [email] : []));
  await markCopiesIngested(writes, copies, now);
  const { metas, emailIds, movedIds, baselineDates } = located;
  const dates = new Map(rows.map(({ email }) => [email.id, email.date]));
  const locations = metas.map((meta) => {
    const emailId = emailIds.get(meta.uid) ?? null;
    const date = emailId === null ? baselineDates.get(meta.uid) : dates.get(emailId);
    return { ...locationRow(account.id, folder.id, meta, emailId), ...(date ? { date } : {}) };
  });
  if (movedIds.length === 0) return { inserted: writeLocations(writes, locations), isFlushed: false };
  // compares what emails show before and after the change
  await afterEmails(tx, account.id, { mails: rows, flushed: await writes.flush(tx), now });
  const saveLocations = async () => {
    await insertLocations(tx, locations);
    await dateLocations(tx, folder.id, [...emailIds.keys()]);
    // All Mail has every email: a location there says nothing about where an email went.
    if (folder.role !== 'ALL') await deleteVanished(tx, movedIds);
  };
  await changeEmails(tx, { lease, emailIds: movedIds, now, quiet: source === 'initialSync' }, saveLocations);
  return { inserted: sql`0`, isFlushed: true };
}

/** Records the events of new emails, the folder's counters and its cursor; returns the cursor. */
async function saveProgress(
  tx: Tx,
  ctx: SyncContext,
  { folder, selection, source, importId, cursorLimit = Infinity }: IngestTarget,
  { metas, rows, located, now, writes, inserted, isFlushed }: Batch & Saved,
): Promise<number | null> {
  const { account } = ctx;
  const reached = metas.reduce((max, { uid }) => Math.max(max, uid + 1), folder.uidNext ?? 1);
  const uidNext = source === 'live' ? Math.min(reached, cursorLimit) : folder.uidNext;
  if (importId !== undefined) {
    const undelivered = undeliveredIn(ctx, { folder, selection, source });
    // those that the server did not deliver are left to read
    const read = metas.filter((meta) => located.metas.includes(meta) || !undelivered.isPending(meta.uid)).length;
    await countBatch(tx, { importId, folderId: folder.id }, { imported: rows.length, read });
  } else if (source === 'initialSync') await addImported(tx, account.id, rows.length);
  else {
    const events = rows.map((row) => arrivalEvent(row, folder, now));
    if (events.length > 0) await recordEvents(tx, account.id, events, writes);
  }
  await writeArrived(writes, folder.id, {
    located: inserted,
    unread: source === 'initialSync' ? 0 : located.metas.filter((meta) => !meta.seen).length,
    total: source === 'api' ? located.metas.length : 0,
    readAt: source === 'live' ? null : selection.highestModseq,
    ...(source === 'live' && uidNext !== null ? { uidNext } : {}),
  });
  const flushed = await writes.flush(tx);
  if (!isFlushed) await afterEmails(tx, account.id, { mails: rows, flushed, now });
  return uidNext;
}

function arrivalEvent({ email, contents }: NewEmailRows, folder: FolderState, now: Date): NewEvent {
  const row = emailRowOf(email);
  const type = row.isDraft ? 'email.draft.new' : row.bounce ? 'email.new.bounce' : 'email.new';
  const object = row.isDraft ? 'Draft' : 'Email';
  return { type, objectId: row.id, data: { email: toEmail(row, contents, [folder.id], object) }, createdAt: now };
}
