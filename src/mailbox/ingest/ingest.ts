import type { Queryable, Tx } from '../../db/client.ts';
import { toEmail } from '../../db/email-object.ts';
import { inLease } from '../../db/lease.ts';
import { type NewEvent, recordEvents } from '../../db/outbox.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { linkBounces } from '../bounces.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { addImported, touchSynced } from '../settings.ts';
import { emailRowOf, insertEmails, saveSeen, type NewEmailRows } from '../store/emails.ts';
import { addToTotal, addToUnread, type FolderState, updateFolder } from '../store/folders.ts';
import { dateLocations, findCandidates, deleteVanished, insertLocations, locatedUids } from '../store/locations.ts';
import { keysOf, readMails } from './fetch.ts';
import { findSentByApi, type SentByApi, matchMessages, type Match } from './match.ts';
import { buildEmail, type ReadMail } from './rows.ts';
import { matchSentCopies } from './sent-copy.ts';
import { type AssignedThread, assignThreads } from './threads.ts';

/**
 * How the mail comes: as it arrives; written by this API, of which the folder's cursor knows nothing yet; or imported
 * from before the connect (told by no `email.new`).
 */
export type IngestSource = 'arriving' | 'written' | 'imported';

/** Bounds of one transaction. */
const BATCH_MAILS = 50;
const BATCH_BYTES = 4 * 1024 * 1024;

/** How far a mail server's clock may be from ours. */
const CLOCK_SKEW_MS = 120_000;

/**
 * Takes messages of the selected folder into the store, in batches: each batch with its events and the folder's
 * cursor in one transaction. Messages that are placed already are passed over, so that running it again changes nothing.
 * @returns how many emails were new to the store
 */
export async function ingest(
  ctx: SyncContext,
  folder: FolderState,
  metas: MessageMeta[],
  manner: IngestSource,
  onBatch: (taken: number) => Promise<void> = async () => {},
): Promise<number> {
  let taken = 0;
  // The next batch is fetched and read while this one is saved: the one waits for the mail server, the other for Postgres.
  let reading: Promise<ReadBatch> | undefined;
  try {
    for (const { metas: batch, next } of withNext([...batches(metas)])) {
      const read = await (reading ?? readBatch(ctx, folder, batch, manner));
      reading = next && readBatch(ctx, folder, next, manner);
      reading?.catch(() => {});
      const count = await saveBatch(ctx, folder, read, manner);
      taken += count;
      await onBatch(count);
    }
  } catch (error) {
    // Nobody else may use the session while it is still being read from.
    const left = await reading?.catch(() => undefined);
    if (left) await ctx.storage.delete(keysOf(left.mails));
    throw error;
  }
  return taken;
}

function withNext(all: MessageMeta[][]): { metas: MessageMeta[]; next: MessageMeta[] | undefined }[] {
  return all.map((metas, index) => ({ metas, next: all[index + 1] }));
}

function* batches(metas: MessageMeta[]): Generator<MessageMeta[]> {
  let batch: MessageMeta[] = [];
  let bytes = 0;
  for (const meta of metas) {
    if (batch.length > 0 && (batch.length >= BATCH_MAILS || bytes + meta.size > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(meta);
    bytes += meta.size;
  }
  if (batch.length > 0) yield batch;
}

/** Messages with what was read of them. */
interface ReadBatch {
  batch: MessageMeta[];
  /** UIDs whose messages were asked for, since they seemed to be new */
  asked: Set<number>;
  mails: ReadMail[];
}

async function readBatch(
  ctx: SyncContext,
  folder: FolderState,
  batch: MessageMeta[],
  manner: IngestSource,
): Promise<ReadBatch> {
  // what we have just written is new, or the save finds that it was seen already
  if (manner === 'written') {
    return { batch, asked: new Set(batch.map((meta) => meta.uid)), mails: await readMails(ctx, batch) };
  }
  const { found: expected } = await matchBatch(ctx.db, ctx, folder, batch, manner);
  const fresh = batch.filter((meta) => expected.get(meta.uid)?.kind === 'new');
  return { batch, asked: new Set(fresh.map((meta) => meta.uid)), mails: await readMails(ctx, fresh) };
}

async function saveBatch(
  ctx: SyncContext,
  folder: FolderState,
  read: ReadBatch,
  manner: IngestSource,
): Promise<number> {
  for (let current = read; ; ) {
    const { unused, count, overlooked } = await inLease(ctx.db, ctx.lease, (tx) =>
      save(tx, ctx, folder, current, manner),
    );
    if (unused.length > 0) await ctx.storage.delete(unused);
    if (overlooked.length === 0) return count;
    // What they were taken for was deleted in between: they are new after all.
    const asked = new Set([...current.asked, ...overlooked.map((meta) => meta.uid)]);
    current = { batch: current.batch, asked, mails: await readMails(ctx, current.batch) };
  }
}

/** Commits one batch; decides anew what is new, since the import and the watch may meet the same mail at one time. */
async function save(
  tx: Tx,
  ctx: SyncContext,
  folder: FolderState,
  { batch, asked, mails }: ReadBatch,
  manner: IngestSource,
): Promise<{ unused: string[]; count: number; overlooked: MessageMeta[] }> {
  const now = new Date();
  const accountId = ctx.account.id;
  const { found: recognised, ours } = await matchBatch(tx, ctx, folder, batch, manner);
  const overlooked = batch.filter((meta) => recognised.get(meta.uid)?.kind === 'new' && !asked.has(meta.uid));
  if (overlooked.length > 0) return { unused: keysOf(mails), count: 0, overlooked };
  const fresh = mails.filter((mail) => recognised.get(mail.meta.uid)?.kind === 'new');
  const unused = keysOf(mails.filter((mail) => !fresh.includes(mail)));
  unused.push(...(await matchSentCopies(tx, fresh, ours)));
  const rows = await buildRows(tx, ctx, folder, fresh, ours, now);
  const emailIds = new Map(rows.map(({ email }, index) => [(fresh[index] as ReadMail).meta.uid, email.id]));
  const moved: string[] = [];
  const movedFlags: { emailId: string; seen: boolean }[] = [];
  const seen = new Map(batch.map((meta) => [meta.uid, meta.seen]));
  for (const [uid, it] of recognised) {
    if (it.kind !== 'email') continue;
    emailIds.set(uid, it.emailId);
    moved.push(it.emailId);
    if (it.from.vanishedAt) movedFlags.push({ emailId: it.emailId, seen: seen.get(uid) ?? false });
  }
  await insertEmails(tx, accountId, rows, now);
  const placed = batch.filter((meta) => emailIds.has(meta.uid) || recognised.get(meta.uid)?.kind === 'baseline');
  const place = async () => {
    await insertLocations(
      tx,
      placed.map((meta) => locationOf(accountId, folder.id, meta, emailIds.get(meta.uid) ?? null)),
    );
    await dateLocations(tx, folder.id, [...emailIds.keys()]);
    await saveSeen(tx, movedFlags);
    // All Mail holds every mail: that a mail lies there too says nothing about where it went.
    if (folder.role !== 'ALL') await deleteVanished(tx, moved);
  };
  await changeEmails(tx, ctx.lease, moved, now, place, { quiet: manner === 'imported' });
  if (manner === 'imported') {
    await addImported(tx, accountId, rows.length);
  } else {
    await recordEvents(
      tx,
      accountId,
      rows.map((row) => arrivalEvent(row, folder, now)),
    );
    await addToUnread(tx, folder.id, placed.filter((meta) => !meta.seen).length);
    if (manner === 'arriving') await advance(tx, accountId, folder, batch, now);
    else await addToTotal(tx, folder.id, placed.length);
  }
  return { unused, count: rows.length, overlooked };
}

/** What each message of the batch is, and which are ours; those that are placed already are missing from the answer. */
async function matchBatch(
  db: Queryable,
  ctx: SyncContext,
  folder: FolderState,
  batch: MessageMeta[],
  manner: IngestSource,
): Promise<{ found: Map<number, Match>; ours: SentByApi }> {
  const placed = await locatedUids(
    db,
    folder.id,
    batch.map((meta) => meta.uid),
    manner === 'imported',
  );
  const arrivals = batch.filter((meta) => !placed.has(meta.uid));
  const candidates = await findCandidates(db, ctx.account.id, arrivals);
  if (manner === 'imported') {
    const stored = candidates.filter((candidate) => candidate.emailId !== null);
    return { found: matchMessages(folder.id, arrivals, stored), ours: NOTHING_OURS };
  }
  const found = matchMessages(folder.id, arrivals, candidates);
  if (!ctx.baselineKnown()) {
    // Until every folder has been scanned, an older mail is taken for one that lay there before and was moved.
    const before = ctx.account.connectedAt.getTime() - CLOCK_SKEW_MS;
    for (const meta of arrivals) {
      const isNew = found.get(meta.uid)?.kind === 'new';
      if (isNew && meta.internalDate.getTime() < before) found.set(meta.uid, { kind: 'baseline', from: null });
    }
  }
  return { found, ours: await findSentByApi(db, ctx, folder, arrivals, found) };
}

const NOTHING_OURS: SentByApi = { copies: new Map(), drafts: new Map(), sent: new Set() };

async function buildRows(
  tx: Tx,
  ctx: SyncContext,
  folder: FolderState,
  mails: ReadMail[],
  ours: SentByApi,
  now: Date,
): Promise<NewEmailRows[]> {
  const { account } = ctx;
  const threads = await assignThreads(
    tx,
    account.id,
    account.ownAddresses,
    mails.map(({ parsed, meta }) => ({
      serverThreadId: meta.serverThreadId,
      messageId: parsed.messageId,
      inReplyTo: parsed.inReplyTo,
      references: parsed.references,
      baseSubject: parsed.baseSubject,
      isReplySubject: parsed.isReplySubject,
      date: parsed.date ?? meta.internalDate,
      from: parsed.from,
      to: parsed.to,
      cc: parsed.cc,
    })),
  );
  const bounces = await linkBounces(
    tx,
    account.id,
    mails.map(({ parsed }) => parsed),
  );
  return mails.map((mail, index) =>
    buildEmail(account, mail, threads[index] as AssignedThread, {
      isDraft: folder.role === 'DRAFTS',
      bounce: bounces[index] ?? null,
      sent: ours.copies.get(mail.meta.uid),
      draft: ours.drafts.get(mail.meta.uid),
      isOurs: ours.sent.has(mail.meta.uid),
      now,
    }),
  );
}

function locationOf(accountId: string, folderId: string, meta: MessageMeta, emailId: string | null) {
  const { uid, seen, deleted, identity, weakIdentity, serverId } = meta;
  return { folderId, uid, accountId, emailId, seen, deleted, identity, weakIdentity, serverId };
}

function arrivalEvent({ email, contents }: NewEmailRows, folder: FolderState, now: Date): NewEvent {
  const row = emailRowOf(email);
  const type = row.isDraft ? 'email.draft.new' : row.bounce ? 'email.new.bounce' : 'email.new';
  const object = row.isDraft ? 'Draft' : 'Email';
  return { type, objectId: row.id, data: { email: toEmail(row, contents, [folder.id], object) }, createdAt: now };
}

/** Moves the cursor past the batch. */
async function advance(tx: Tx, accountId: string, folder: FolderState, batch: MessageMeta[], now: Date): Promise<void> {
  const next = batch.reduce((max, meta) => Math.max(max, meta.uid + 1), folder.uidNext ?? 1);
  await updateFolder(tx, folder.id, { uidNext: next });
  await touchSynced(tx, accountId, now);
  folder.uidNext = next;
}
