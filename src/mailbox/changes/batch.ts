import { ApiError } from '../../contract/errors.ts';
import type { Tx } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { hasMove, hasUidplus } from '../../imap/command.ts';
import { cannotBeMade, refusedForNow } from '../../imap/response-codes.ts';
import { fetchMetaOf, readFlags } from '../../imap/fetch.ts';
import { moveMessages } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import { storeFlags } from '../../imap/store.ts';
import { fitsUidValidity } from '../../imap/uidvalidity.ts';
import { FolderMissing, MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { isSameMessage } from '../ingest/match.ts';
import { type BatchError, type BatchItem, itemsChanged, itemsFailed } from '../store/batches.ts';
import type { FolderState } from '../store/folders.ts';
import { type EmailLocation, loadLocationsOf } from '../store/moves.ts';
import { storeFlagChanges } from './flags.ts';
import { LocationChanged } from './locate.ts';
import { changeFlags, type FlagChange, notKeepable, notMade, unkeptDetail } from './mark.ts';
import { moveEmail, saveMoves } from './move.ts';

/*
 * Changes many emails: those of one folder together, with one STORE or MOVE, and one transaction for the change, its
 * events and its results. What another program or call has moved, is in several folders, or needs a copy is changed alone,
 * as a call for that email alone does it. A crash may follow any step: what has no result is changed again, and each step
 * is idempotent.
 */

export interface BatchChange {
  batchId: string;
  flags?: FlagChange | undefined;
  /** finds the folder to move them to */
  findTarget?: (() => Promise<FolderState>) | undefined;
  /** moves one email to a Trash that the account does not include; `also` runs in the transaction that deletes it */
  trash?: ((emailId: string, also: (tx: Tx) => Promise<void>) => Promise<void>) | undefined;
  /** an email that fails without a refusal is given up, and does not stop the others, unless the connection ended */
  givesUp: boolean;
  /** the emails that are left to be changed alone stay pending when it returns true; left out: they never do */
  isOver?: () => boolean;
}

interface Located extends BatchItem {
  location: EmailLocation;
}

/**
 * Changes emails of an account, at the provider first, and records their results. The caller bounds their number: 500.
 * @throws MailError; ApiError when the target is missing
 */
export async function changeMany(ctx: SyncContext, items: readonly BatchItem[], change: BatchChange): Promise<void> {
  const ids = items.map(({ emailId }) => emailId);
  const located = await loadLocationsOf(ctx.db, ctx.account.id, ids);
  const target = await change.findTarget?.();
  await itemsFailed(
    ctx.db,
    change.batchId,
    items.filter(({ emailId }) => !located.has(emailId)),
    { code: 'not_found', detail: 'no email has this id' },
  );
  const groups = new Map<string, Located[]>();
  const alone: BatchItem[] = [];
  for (const item of items.filter(({ emailId }) => located.has(emailId))) {
    const [location, ...others] = located.get(item.emailId) ?? [];
    if (location && others.length === 0 && !change.trash && isSimple(ctx, location, target)) {
      groups.set(location.folderId, [...(groups.get(location.folderId) ?? []), { ...item, location }]);
    } else alone.push(item);
  }
  let left: readonly BatchItem[] = alone;
  for (const group of groups.values()) left = [...left, ...(await changeGroup(ctx, group, { ...change, target }))];
  for (const item of left) {
    if (change.isOver?.()) return;
    await changeAlone(ctx, item, change);
  }
}

/** Gmail's labels, and moves by a copy, have steps for each email. */
function isSimple({ session }: SyncContext, location: EmailLocation, target: FolderState | undefined): boolean {
  if (location.beingMoved || location.deleted || session.has('X-GM-EXT-1')) return false;
  return !target || location.folderId === target.id || (hasMove(session) && hasUidplus(session));
}

type GroupChange = BatchChange & { target: FolderState | undefined };

/** Changes emails of one folder; returns those that have to be changed alone. */
async function changeGroup(ctx: SyncContext, group: readonly Located[], change: GroupChange): Promise<BatchItem[]> {
  try {
    const [{ location }] = group as [Located];
    const selected = await openFolder(ctx.session, location.path);
    if (selected.uidValidity !== location.uidValidity) return [...group];
    const metas = new Map((await fetchMetaOf(ctx.session, uidsOf(group))).map((meta) => [meta.uid, meta]));
    const isThere = ({ location }: Located) => {
      const meta = metas.get(location.uid);
      return meta !== undefined && isSameMessage(meta, location);
    };
    const { flags, target } = change;
    const others = group.filter((item) => !isThere(item));
    const there = group.filter(isThere);
    const { alone, left } =
      flags && there.length > 0 ? await markGroup(ctx, there, { ...change, flags }) : { alone: [], left: there };
    const unmoved = target ? await moveGroup(ctx, left, { ...change, target }) : [];
    return [...others, ...alone, ...unmoved];
  } catch (error) {
    const isOfSome = error instanceof LocationChanged || error instanceof FolderMissing;
    // one of them may be the reason
    if (isOfSome || (error instanceof MailError && isOpen(ctx))) return [...group];
    throw error;
  }
}

const uidsOf = (group: readonly Located[]) => group.map(({ location }) => location.uid);

/** Changes flags in the selected folder. `left`: those that were changed and are to be moved now. */
async function markGroup(
  ctx: SyncContext,
  group: Located[],
  { batchId, flags, target }: GroupChange & { flags: FlagChange },
): Promise<{ alone: BatchItem[]; left: Located[] }> {
  const refused = notKeepable(ctx.session, flags);
  if (refused.length > 0) {
    await itemsFailed(ctx.db, batchId, group, { code: 'provider_rejected', detail: unkeptDetail(refused) });
    return { alone: [], left: [] };
  }
  const now = await storeFlags(ctx.session, uidsOf(group), flags);
  const made = group.filter(({ location }) => {
    const shown = now.get(location.uid);
    return shown && notMade(shown, flags).length === 0;
  });
  const read = made.map(({ location: { folderId, uid } }) => {
    return { folderId, uid, ...readFlags(now.get(uid) as Set<string>) };
  });
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const { notStored, beingMoved } = await storeFlagChanges(tx, ctx.lease, { flags: read, byApi: true });
    const [first] = made;
    if (first && notStored.length + beingMoved.length > 0) throw new LocationChanged(first.location, { gone: false });
    if (!target) await itemsChanged(tx, batchId, made);
  });
  const isMade = new Set(made);
  return { alone: group.filter((item) => !isMade.has(item)), left: made };
}

/** Moves emails out of the selected folder; returns those whose place in the target is not known. */
async function moveGroup(
  ctx: SyncContext,
  group: Located[],
  { batchId, target }: GroupChange & { target: FolderState },
): Promise<BatchItem[]> {
  const moving = group.filter(({ location }) => location.folderId !== target.id);
  await itemsChanged(
    ctx.db,
    batchId,
    group.filter(({ location }) => location.folderId === target.id),
  );
  if (moving.length === 0) return [];
  const { uids, uidValidity } = await moveMessages(ctx.session, uidsOf(moving), target.path);
  if (uidValidity === null || !fitsUidValidity(target.uidValidity, uidValidity)) return moving;
  const arrived = moving.flatMap(({ position, emailId, location: from }) => {
    const uid = uids.get(from.uid);
    return uid === undefined ? [] : [{ position, emailId, arrived: { uid, from } }];
  });
  const record = (tx: Tx) => itemsChanged(tx, batchId, arrived);
  if (arrived.length > 0) await saveMoves(ctx, target, arrived, record);
  return moving.filter(({ location }) => !uids.has(location.uid));
}

/** Changes one email as a call for it alone does. */
async function changeAlone(ctx: SyncContext, item: BatchItem, change: BatchChange): Promise<void> {
  const { batchId, flags, findTarget, trash, givesUp } = change;
  try {
    if (flags) await changeFlags(ctx, item.emailId, flags);
    if (findTarget) await moveEmail(ctx, item.emailId, findTarget);
    await trash?.(item.emailId, (tx) => itemsChanged(tx, batchId, [item]));
  } catch (error) {
    const failure = failureOf(error, givesUp && isOpen(ctx));
    if (!failure) throw error;
    return itemsFailed(ctx.db, batchId, [item], failure);
  }
  await itemsChanged(ctx.db, batchId, [item]);
}

const isOpen = ({ session }: SyncContext): boolean => session.client.usable;

function failureOf(error: unknown, givesUp: boolean): BatchError | undefined {
  if (error instanceof ApiError) return { code: error.code, detail: error.detail };
  if (!(error instanceof MailError)) return undefined;
  const { detail, code } = error;
  if (cannotBeMade(error)) return { code: 'provider_rejected', detail };
  // a server that asks for patience refuses all of them: the batch waits
  return givesUp && code === 'provider_error' && !refusedForNow(error) ? { code, detail } : undefined;
}
