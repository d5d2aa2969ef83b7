import { fetchMetaOf, type MessageMeta, metaOfAppended } from '../../imap/fetch.ts';
import type { SelectedFolder } from '../../imap/select.ts';
import { existing } from '../../imap/store.ts';
import { fitsUidValidity } from '../../imap/uidvalidity.ts';
import type { SyncContext } from '../context.ts';
import { isRefusedData } from '../../db/driver/refused-data.ts';
import type { MailParser } from '../../mime/parser.ts';
import { minimalMail } from '../../mime/read/read-message.ts';
import { measured } from '../../runtime/measure.ts';
import { assertSelected, selectionOf } from '../selected.ts';
import type { FolderState } from '../store/folders.ts';
import { newId } from '../../new-id.ts';
import { deleteUnreferenced } from '../unsaved-files.ts';
import { commitBatch, type CommittedBatch, cursorLimitOf, type FetchedBatch } from './commit.ts';
import { fetchMails, keysOf, undeliveredIn } from './fetch.ts';
import { type IngestTarget, loadMatchFacts, matchRulesOf, selectUnknown } from './match.ts';
import { storeAttachments } from './store-attachments.ts';
import type { Undelivered } from './undelivered.ts';

export type { IngestTarget } from './match.ts';

/** Bounds of one transaction. */
const BATCH_MESSAGES = 50;
const BATCH_BYTES = 4 * 1024 * 1024;

export interface IngestResult {
  /** emails that were new to the store */
  ingested: number;
  /** the folder's cursor afterwards; only `live` ingestion moves it */
  uidNext: number | null;
  /** UIDs of messages for which the storage has no room: the cursor stays below them */
  leftOut: number[];
}

/**
 * Ingests messages of the selected folder in batches, each with its events and the folder's cursor in one transaction.
 * Stored messages are skipped: running it again changes nothing. A message for which the storage has no room, or that the
 * server does not deliver, does not delay others.
 * @throws MailError; LeaseLost
 */
export async function ingest(
  ctx: SyncContext,
  target: IngestTarget,
  metas: MessageMeta[],
  onBatch: (ingested: number) => void = () => {},
): Promise<IngestResult> {
  let result = nothingOf(target);
  const batches = [...batchesOf(metas, undeliveredIn(ctx, target))];
  // The next batch is fetched while this one is saved: one waits for the mail server, the other for Postgres.
  let next: Promise<FetchedBatch> | undefined;
  try {
    for (const [index, batch] of batches.entries()) {
      const fetched = await (next ?? fetchBatch(ctx, target, batch));
      const following = batches[index + 1];
      next = following && fetchBatch(ctx, target, following);
      next?.catch(() => {});
      const now = targetAfter(target, result);
      const saved = await saveBatch(ctx, now, fetched, next).catch(async (error: unknown) => {
        if (!isRefusedData(error)) throw error;
        // one user of the session at a time; a failure of it is met below
        await next?.catch(() => {});
        return saveEach(ctx, now, batch);
      });
      result = withSaved(result, saved);
      onBatch(saved.ingested);
    }
  } catch (error) {
    // The session stays reserved while a batch is being fetched.
    const unsaved = await next?.catch(() => undefined);
    if (unsaved) await deleteUnreferenced(ctx, keysOf(unsaved.mails));
    throw error;
  }
  return result;
}

type Saved = Pick<CommittedBatch, 'ingested' | 'uidNext'> & { leftOut: readonly number[] };

const nothingOf = ({ folder }: IngestTarget): IngestResult => ({
  ...{ ingested: 0, uidNext: folder.uidNext },
  leftOut: [],
});

/** The target of what follows on a result. */
function targetAfter(target: IngestTarget, { uidNext, leftOut }: IngestResult): IngestTarget {
  return { ...target, folder: { ...target.folder, uidNext }, cursorLimit: cursorLimitOf(leftOut, target.cursorLimit) };
}

function withSaved({ ingested, leftOut }: IngestResult, saved: Saved): IngestResult {
  return {
    ...{ ingested: ingested + saved.ingested, uidNext: saved.uidNext },
    leftOut: [...leftOut, ...saved.leftOut],
  };
}

/**
 * Ingests messages that this API has just appended to the selected folder, with their events. The watch may see them at
 * the same time: the second to commit finds them stored. Under another UIDVALIDITY than the stored one they are left to
 * the watch, which first maps the UIDs.
 */
export async function ingestAppended(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  uids: number[],
): Promise<void> {
  if (!fitsUidValidity(folder.uidValidity, selected.uidValidity)) return;
  const selection = selectionOf(ctx.session, selected);
  assertSelected(ctx.session, selection);
  await ingest(ctx, { folder, selection, source: 'api' }, await fetchMetaOf(ctx.session, uids));
}

/** A message that this API has just appended, with its bytes. */
export interface Appended {
  uid: number;
  uidValidity: number;
  messageId: string;
  source: Buffer;
  /** of `source`: a file of the send until the email is committed */
  storageKey: string;
  /** INTERNALDATE that was given, in whole seconds */
  date: Date;
}

/**
 * Ingests an appended message without fetching it, where the server is known to store messages unchanged. A server with
 * its own ids for messages or threads is asked for them.
 * @returns false: it has to be fetched
 */
export async function ingestComposed(ctx: SyncContext, folder: FolderState, appended: Appended): Promise<boolean> {
  if (!ctx.session.keepsAppended || !fitsUidValidity(folder.uidValidity, appended.uidValidity)) return false;
  const { uid, uidValidity, source, storageKey } = appended;
  const meta = metaOfAppended(uid, appended);
  const parsed = await ctx.parser.parse(source);
  const attachments = await storeAttachments(ctx, parsed);
  const mail = { emailId: newId('email'), meta, parsed, storageKey, isOfSend: true, attachments };
  const selection = { path: folder.path, uidValidity, uidNext: null, exists: 0, highestModseq: null };
  const batch = { metas: [meta], requested: new Set([uid]), mails: [mail] };
  try {
    const outcome = await commitBatch(ctx, { folder, selection, source: 'api' }, batch);
    const isCommitted = 'unusedKeys' in outcome;
    if (isCommitted && outcome.ingested > 0) measured('ingested', { source: 'api', count: outcome.ingested });
    await ctx.storage.delete(isCommitted ? outcome.unusedKeys : keysOf([mail]));
    return isCommitted;
  } catch (error) {
    await deleteUnreferenced(ctx, keysOf([mail]));
    if (isRefusedData(error)) return false;
    throw error;
  }
}

/** Checks, once per session, whether the server stores messages unchanged; the message is in the selected folder. */
export async function learnWhetherKept({ session }: SyncContext, appended: Appended): Promise<void> {
  const [found] = await fetchMetaOf(session, [appended.uid]);
  const given = metaOfAppended(appended.uid, appended);
  const hasIds = found?.serverId !== null || found.serverThreadId !== null;
  session.keepsAppended = !hasIds && found.identity === given.identity && found.seen;
}

/** Batches of messages, which are smaller where a connection has ended at one of them. */
function* batchesOf(metas: MessageMeta[], undelivered: Undelivered): Generator<MessageMeta[]> {
  let batch: MessageMeta[] = [];
  let bytes = 0;
  let most = BATCH_MESSAGES;
  for (const meta of metas) {
    const together = undelivered.together(meta.uid);
    if (batch.length > 0 && (batch.length >= Math.min(most, together) || bytes + meta.size > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
      most = BATCH_MESSAGES;
    }
    batch.push(meta);
    bytes += meta.size;
    most = Math.min(most, together);
  }
  if (batch.length > 0) yield batch;
}

/** A message that this API appended was stored before, and its caller waits for it: it is not left out. */
function leavesOut({ source }: IngestTarget): boolean {
  return source !== 'api';
}

/** Fetches those messages of a batch that look new. */
async function fetchBatch(ctx: SyncContext, target: IngestTarget, metas: MessageMeta[]): Promise<FetchedBatch> {
  const unknown = await guessUnknown(ctx, target, metas);
  const fetched = await fetchMails(ctx, target, unknown, { leavesOut: leavesOut(target) });
  return { metas, requested: new Set(unknown.map(({ uid }) => uid)), ...fetched };
}

/** Messages that this API appended are fetched without checking the store. */
async function guessUnknown(ctx: SyncContext, target: IngestTarget, metas: MessageMeta[]): Promise<MessageMeta[]> {
  if (target.source === 'api') return metas;
  const facts = await loadMatchFacts(ctx.db, ctx.account.id, target, metas);
  return facts ? selectUnknown(matchRulesOf(ctx, target), metas, facts) : [];
}

/**
 * Commits a batch. Messages are matched in that transaction, since a watch, an import and this API may meet the same
 * message; `selectUnknown` only guesses which ones need their source. The commit saves nothing when it needs the source of
 * others, or when some may have left the folder: they are fetched or looked up then, and the batch is committed again.
 */
async function saveBatch(
  ctx: SyncContext,
  target: IngestTarget,
  first: FetchedBatch,
  next: Promise<unknown> | undefined,
): Promise<CommittedBatch & Saved> {
  let fetched = first;
  let { localRevision } = target;
  try {
    for (;;) {
      const outcome = await commitBatch(ctx, { ...target, localRevision }, fetched);
      // one user of the session at a time
      if (!('unusedKeys' in outcome)) await next;
      if ('needed' in outcome) {
        fetched = await fetchMore(ctx, target, fetched, outcome.needed);
        continue;
      }
      if ('doubted' in outcome) {
        fetched = await withoutGone(ctx, target, fetched, outcome.doubted);
        // once: this API may keep changing the folder
        localRevision = undefined;
        continue;
      }
      if (outcome.ingested > 0) measured('ingested', { source: target.source, count: outcome.ingested });
      if (outcome.unusedKeys.length > 0) await ctx.storage.delete(outcome.unusedKeys);
      for (const uid of fetched.givenUp ?? []) undeliveredIn(ctx, target).forget(uid);
      return { ...outcome, leftOut: fetched.leftOut ?? [] };
    }
  } catch (error) {
    await deleteUnreferenced(ctx, keysOf(fetched.mails));
    throw error;
  }
}

/**
 * Saves the messages of a batch one by one, since Postgres refuses what was read of one of them: of that, the header alone is
 * stored, undecoded, and the others are not held up.
 */
async function saveEach(ctx: SyncContext, target: IngestTarget, metas: MessageMeta[]): Promise<IngestResult> {
  let result = nothingOf(target);
  for (const meta of metas) {
    const now = targetAfter(target, result);
    const save = async (own: SyncContext) => saveBatch(own, now, await fetchBatch(own, now, [meta]), undefined);
    const saved = await save(ctx).catch((err: unknown) => {
      if (!isRefusedData(err)) throw err;
      const { account, logger } = ctx;
      logger.error(
        { accountId: account.id, uid: meta.uid, err },
        'email stored incomplete: the database refuses its content',
      );
      return save({ ...ctx, parser: HEADER_ONLY });
    });
    result = withSaved(result, saved);
  }
  return result;
}

const HEADER_ONLY: MailParser = {
  parse: async (source) => minimalMail(source),
  parseMany: async (sources) => sources.map(minimalMail),
  replaceThreads: () => {},
  close: async () => {},
};

/** Of these messages, notes those that the folder does not hold any longer. */
async function withoutGone(
  { session }: SyncContext,
  { selection }: IngestTarget,
  fetched: FetchedBatch,
  uids: number[],
): Promise<FetchedBatch> {
  assertSelected(session, selection);
  const present = new Set(await existing(session, uids));
  return { ...fetched, gone: [...(fetched.gone ?? []), ...uids.filter((uid) => !present.has(uid))] };
}

async function fetchMore(
  ctx: SyncContext,
  target: IngestTarget,
  { metas, requested, mails, leftOut = [], givenUp = [], gone = [] }: FetchedBatch,
  needed: MessageMeta[],
): Promise<FetchedBatch> {
  const more = await fetchMails(ctx, target, needed, { leavesOut: leavesOut(target) });
  return {
    metas,
    requested: new Set([...requested, ...needed.map(({ uid }) => uid)]),
    mails: [...mails, ...more.mails].sort((a, b) => a.meta.uid - b.meta.uid),
    leftOut: [...leftOut, ...more.leftOut],
    givenUp: [...givenUp, ...more.givenUp],
    gone,
  };
}
