import { and, eq, gt, isNull, lt, sql } from 'drizzle-orm';
import type { Tx } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { locations, type Renumbering } from '../../db/schema/index.ts';
import { fetchMetaAmong, type MessageMeta } from '../../imap/fetch.ts';
import { listAllUids } from '../../imap/list-uids.ts';
import type { SelectedFolder } from '../../imap/select.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { matchMessages } from '../ingest/match.ts';
import { fetchMetaDue } from '../ingest/metas.ts';
import { type FolderState, loadFolder, updateFolder } from '../store/folders.ts';
import { counted, findFreedCandidates, type FreedCandidate, locatedUids } from '../store/locations.ts';
import { markVanished } from '../store/vanished-locations.ts';

/*
 * Maps a folder after its UIDVALIDITY changed (RFC 9051 2.3.1.1), or after a UID turned out to name another message under
 * the same one, as on servers that renumber: no earlier UID is valid. Each message is found again by the server's own id,
 * else by Message-ID, size and INTERNALDATE, and keeps its email; a message that is not found is marked as vanished, and
 * an unknown one is ingested as new by the sync pass that follows, since the cursor stays below it.
 *
 * The work is done in chunks, each in a separate transaction; the folder's row records the progress.
 * start      the folder has no UIDVALIDITY, so no UID of it is used
 * freeing    UIDs get numbers below zero, which no server gives
 * matching   messages of the server, ascending, get the locations that they match
 * vanishing  the locations that are still below zero are marked as vanished
 * end        the folder has its new UIDVALIDITY and cursor
 * Two processes that do this concurrently share the chunks.
 */

/** The UIDVALIDITY of a folder whose UIDs are being replaced: differs from any that a server gives, and from none (0). */
const REPLACING = -1;

/** Locations of one transaction, and messages whose metadata is in memory. */
const CHUNK = 1_000;

/** More than any UID: see `Renumbering.series`. */
const SERIES = 2 ** 32;

/** Where the messages of the folder come from. */
export interface MessageSource {
  /** all UIDs, ascending */
  uids(): Promise<number[]>;
  /** of these UIDs, which are some of `all` */
  metas(uids: number[], all: readonly number[]): Promise<MessageMeta[]>;
}

export type RenumberContext = Pick<SyncContext, 'db' | 'lease' | 'account'>;

/** Gives the locations of the selected folder their UIDs under its new UIDVALIDITY. @returns the folder as it is then */
export function remapUids(ctx: SyncContext, folder: FolderState, selected: SelectedFolder): Promise<FolderState> {
  return remapById(ctx, folder.id, selected);
}

/** Maps all UIDs of the selected folder again, under the UIDVALIDITY that is stored, after one named another message. */
export async function remapFolder(ctx: SyncContext, folderId: string, selected: SelectedFolder): Promise<void> {
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const folder = await loadFolder(tx, folderId);
    // Another process may be doing it already.
    if (folder && !folder.vacating && folder.uidValidity === selected.uidValidity) {
      await updateFolder(tx, folderId, { uidValidity: REPLACING });
    }
  });
  await remapById(ctx, folderId, selected);
}

function remapById(ctx: SyncContext, folderId: string, selected: SelectedFolder): Promise<FolderState> {
  return renumberFolder(ctx, folderId, selected, {
    uids: () => listAllUids(ctx.session),
    metas: (uids, all) =>
      fetchMetaDue(ctx, { folder: { id: folderId }, selection: selected }, uids, (group) =>
        fetchMetaAmong(ctx.session, group, { others: all }),
      ),
  });
}

/**
 * Gives the locations of a folder their UIDs under the UIDVALIDITY of `selected`, matched with the messages of `source`.
 * Continues where an earlier call for the same UIDVALIDITY was stopped.
 * @throws MailError when the folder is deleted or gets yet another UIDVALIDITY; the errors of `source`
 */
export async function renumberFolder(
  ctx: RenumberContext,
  folderId: string,
  selected: Pick<SelectedFolder, 'uidValidity' | 'uidNext'>,
  source: MessageSource,
): Promise<FolderState> {
  let folder = await inLease(ctx.db, ctx.lease, (tx) => start(tx, folderId, selected.uidValidity));
  let uids: number[] | undefined;
  while (folder.renumbering) {
    const state = folder.renumbering;
    const chunk: Chunk = { folder, state, uids: [], metas: [] };
    if (state.phase === 'matching') {
      uids ??= (await source.uids()).sort((a, b) => a - b);
      chunk.uids = uids.filter((uid) => uid > state.cursor).slice(0, CHUNK);
      chunk.metas = chunk.uids.length === 0 ? [] : byUid(await source.metas(chunk.uids, uids));
    }
    const next = selected.uidNext ?? (uids?.at(-1) ?? 0) + 1;
    folder = await inLease(ctx.db, ctx.lease, async (tx) => {
      const stored = await loadReplacing(tx, folderId, selected.uidValidity);
      // Another process has done this chunk.
      if (!isSame(stored.renumbering, state)) return stored;
      await updateFolder(tx, folderId, await PHASES[state.phase](tx, ctx, chunk, next));
      return loadReplacing(tx, folderId, selected.uidValidity);
    });
  }
  return folder;
}

interface Chunk {
  folder: FolderState;
  state: Renumbering;
  /** the next messages of the server, in the phase `matching` */
  uids: number[];
  /** those of them that still exist, ascending */
  metas: MessageMeta[];
}

/** What each phase does for one chunk. @returns the values of the folder's row from then on */
type Phase = (tx: Tx, ctx: RenumberContext, chunk: Chunk, uidNext: number) => Promise<Partial<FolderState>>;

const PHASES: Record<Renumbering['phase'], Phase> = { freeing: free, matching: match, vanishing: vanish };

function byUid(metas: MessageMeta[]): MessageMeta[] {
  return [...metas].sort((a, b) => a.uid - b.uid);
}

function isSame(a: Renumbering | null, b: Renumbering): boolean {
  return a !== null && a.series === b.series && a.phase === b.phase && a.cursor === b.cursor;
}

/** Starts, unless another process has. */
async function start(tx: Tx, folderId: string, uidValidity: number): Promise<FolderState> {
  const folder = await loadFolder(tx, folderId);
  const isBegun = folder?.renumbering?.uidValidity === uidValidity;
  if (folder && !folder.vacating && !isBegun && folder.uidValidity !== uidValidity) {
    const [lowest] = await tx
      .select({ uid: sql<string | null>`min(${locations.uid})` })
      .from(locations)
      .where(eq(locations.folderId, folderId));
    const series = 1 + Math.max(0, Math.floor(-Number(lowest?.uid ?? 0) / SERIES));
    const renumbering: Renumbering = { uidValidity, series, phase: 'freeing', cursor: 0, firstNew: null };
    await updateFolder(tx, folderId, { uidValidity: REPLACING, renumbering });
  }
  return loadReplacing(tx, folderId, uidValidity);
}

async function loadReplacing(tx: Tx, folderId: string, uidValidity: number): Promise<FolderState> {
  const folder = await loadFolder(tx, folderId);
  const target = folder?.renumbering?.uidValidity ?? folder?.uidValidity;
  if (folder && !folder.vacating && target === uidValidity) return folder;
  throw new MailError('provider_error', 'imap', 'the folder was deleted or its UIDVALIDITY changed');
}

async function free(tx: Tx, _ctx: RenumberContext, { folder, state }: Chunk): Promise<Partial<FolderState>> {
  const { rows } = await tx.execute<{ last: string | null; count: number }>(sql`
    with chunk as (
      select uid from locations where folder_id = ${folder.id} and uid > ${state.cursor} order by uid limit ${CHUNK}
    ), freed as (
      update locations l set uid = -(${state.series * SERIES}::bigint + l.uid) from chunk c
      where l.folder_id = ${folder.id} and l.uid = c.uid
    )
    select max(uid) as last, count(*)::int as count from chunk`);
  const [chunk] = rows;
  if (!chunk || chunk.count < CHUNK) return { renumbering: { ...state, phase: 'matching', cursor: 0 } };
  return { renumbering: { ...state, cursor: Number(chunk.last) } };
}

async function match(tx: Tx, ctx: RenumberContext, chunk: Chunk): Promise<Partial<FolderState>> {
  const { folder, state, uids, metas } = chunk;
  const last = uids.at(-1);
  if (last === undefined) {
    return { renumbering: { ...state, phase: 'vanishing', cursor: Number.MIN_SAFE_INTEGER } };
  }
  const located = await locatedUids(tx, folder.id, uids, false);
  const arrivals = metas.filter(({ uid }) => !located.has(uid));
  const candidates = await findFreedCandidates(tx, folder, arrivals);
  const { moves, fresh } = pair(arrivals, candidates);
  const now = new Date();
  // Of what had vanished, or was being taken out, and is there again, the state may change; of the rest nothing does.
  const isBack = ({ vanishedAt, isPending }: FreedCandidate) => vanishedAt !== null || isPending;
  const revived = moves.flatMap(({ from }) => (from.emailId && isBack(from) ? [from.emailId] : []));
  await changeEmails(tx, { lease: ctx.lease, emailIds: revived, now }, () => giveUids(tx, folder.id, moves));
  // Baseline that was never scanned cannot be found again; there, what is older than the connect stays baseline.
  const isNew = (meta: MessageMeta) => folder.scannedFrom === 1 || meta.internalDate >= ctx.account.connectedAt;
  const firstNew = state.firstNew ?? fresh.find(isNew)?.uid ?? null;
  return { renumbering: { ...state, cursor: last, firstNew } };
}

interface Move {
  from: FreedCandidate;
  to: number;
}

/** Matches messages with locations; the unmatched are new. */
function pair(arrivals: MessageMeta[], candidates: FreedCandidate[]): { moves: Move[]; fresh: MessageMeta[] } {
  // Matched as from another folder in which all has vanished: every location is searched.
  const vanishedAt = new Date();
  const byLocation = new Map(candidates.map((candidate) => [candidate.uid, candidate]));
  const matches = matchMessages(
    '',
    arrivals,
    candidates.map((candidate) => ({ ...candidate, vanishedAt })),
  );
  const moves: Move[] = [];
  const fresh: MessageMeta[] = [];
  for (const meta of arrivals) {
    const it = matches.get(meta.uid);
    const from = it && it.kind !== 'new' && it.from ? byLocation.get(it.from.uid) : undefined;
    if (from) moves.push({ from, to: meta.uid });
    else fresh.push(meta);
  }
  return { moves, fresh };
}

async function giveUids(tx: Tx, folderId: string, moves: Move[]): Promise<void> {
  const rows = moves.map(({ from, to }) => ({ old_uid: from.uid, new_uid: to, by: from.vanishedAt ? 1 : 0 }));
  const update = sql`
    update locations l set uid = m.new_uid, vanished_at = null, pending_removal_since = null
    from json_to_recordset(${JSON.stringify(rows)}::json) as m(old_uid bigint, new_uid bigint, by int)
    where l.folder_id = ${folderId} and l.uid = m.old_uid
    returning l.folder_id, m.by`;
  await tx.execute(sql`${counted(update)} select`);
}

async function vanish(
  tx: Tx,
  ctx: RenumberContext,
  { folder, state }: Chunk,
  uidNext: number,
): Promise<Partial<FolderState>> {
  const { uid, emailId } = locations;
  const chunk = await tx
    .select({ uid, emailId })
    .from(locations)
    .where(and(eq(locations.folderId, folder.id), gt(uid, state.cursor), lt(uid, 0), isNull(locations.vanishedAt)))
    .orderBy(uid)
    .limit(CHUNK);
  const last = chunk.at(-1);
  if (!last) return end(folder, state, uidNext);
  const now = new Date();
  const emailIds = chunk.flatMap((location) => location.emailId ?? []);
  const uids = chunk.map((location) => location.uid);
  await changeEmails(tx, { lease: ctx.lease, emailIds, now }, () => markVanished(tx, folder.id, uids, now));
  return { renumbering: { ...state, cursor: last.uid } };
}

/** The cursor under the new UIDs is below the first message that is new. */
function end(folder: FolderState, { uidValidity, firstNew }: Renumbering, uidNext: number): Partial<FolderState> {
  const cursor = Math.min(firstNew ?? uidNext, uidNext);
  return {
    uidValidity,
    uidNext: cursor,
    baselineUidNext: cursor,
    highestModseq: null,
    scannedFrom: folder.scannedFrom === 1 ? 1 : cursor,
    renumbering: null,
  };
}
