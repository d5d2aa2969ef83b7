import { setTimeout as sleep } from 'node:timers/promises';
import { withRenewal } from '../../async.ts';
import { recordFinishedRun, type RunRef } from '../../db/coordination/finished-runs.ts';
import type { Tx } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { clearPendingRemoval } from '../../db/queries/pending-removal.ts';
import { hasMove } from '../../imap/command.ts';
import { assertDeletable, expungeMessages } from '../../imap/expunge.ts';
import { copyMessages, type Moved, moveMessages } from '../../imap/move.ts';
import { cannotBeMade } from '../../imap/response-codes.ts';
import { fetchFlagSets, storeFlags } from '../../imap/store.ts';
import { openFolder } from '../../imap/select.ts';
import { FolderMissing, MailError } from '../../mail-wire/mail-error.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import type { StoredLocation } from '../store/email-states.ts';
import { type FolderState, loadFolder } from '../store/folders.ts';
import { type EmailLocation, type MovedLocation, moveLocations } from '../store/moves.ts';
import { mark, renewMarks, unmark } from './pending-removals.ts';
import {
  BEING_MOVED,
  LocationChanged,
  findArrival,
  openLocation,
  type EmailLocations,
  targetMark,
  locateEmail,
} from './locate.ts';

/*
 * Moves an email into one folder and out of all others. A crash may follow any numbered step; the next attempt continues
 * from where the email is then.
 * 1. without MOVE, or out of several folders: commit which ones it is leaving, so its copy is not treated as a further
 *    location
 * 2. MOVE, or COPY
 * 3. without MOVE: \Deleted and EXPUNGE in the folder that it left; also in every other folder that holds it
 * 4. commit its new location, with its event unless the watching activity has emitted it
 */

/** Folders that show mail of other folders (RFC 6154): moving an email takes it out of none of these. */
export const VIEWS = new Set<string>(['ALL', 'STARRED', 'IMPORTANT']);
/** Gmail removes a message that is put into one of these from all other folders. */
const BINS = new Set<string>(['TRASH', 'SPAM']);

const DELETED = ['\\Deleted'];
/** Longer than an execution that died counts as alive; see src/db/queries/pending-removal.ts. */
const OTHER_EXECUTION_MS = 12_000;
const CHECK_EVERY_MS = 250;
/** A mark of an execution that is alive gets no older: a COPY of a large message may take long. */
export const RENEW_EVERY_MS = 3_000;

/**
 * Moves an email into one folder. `findTarget` is called again after each conflict, since folders change too. `finishes`:
 * the run that this completes.
 * @throws ApiError not_found; MailError
 */
export async function moveEmail(
  ctx: SyncContext,
  emailId: string,
  findTarget: () => Promise<FolderState>,
  finishes?: RunRef,
): Promise<void> {
  const marked = new Set<string>();
  await locateEmail(ctx, emailId, async (locations) => {
    const target = await findTarget();
    // 4.
    const outcome = await new Move(ctx, { emailId, target, locations, marked }).make();
    await saveMove(ctx, emailId, { ...outcome, finishes });
  });
}

interface MoveAttempt {
  emailId: string;
  target: FolderState;
  /** where the email is */
  locations: EmailLocations;
  /** what this execution has marked as pending removal, in earlier attempts too */
  marked: Set<string>;
}

const keyOf = ({ folderId, uid }: EmailLocation) => `${folderId} ${uid}`;

/** One attempt. */
class Move {
  private readonly ctx: SyncContext;
  private readonly emailId: string;
  private readonly target: FolderState;
  private readonly locations: EmailLocations;
  private readonly marked: Set<string>;
  private readonly gmail: boolean;
  private readonly canMove: boolean;
  private hasTransferred = false;

  constructor(ctx: SyncContext, attempt: MoveAttempt) {
    const { session } = ctx;
    this.ctx = ctx;
    this.emailId = attempt.emailId;
    this.target = attempt.target;
    this.locations = attempt.locations;
    this.marked = attempt.marked;
    this.gmail = session.has('X-GM-EXT-1');
    this.canMove = hasMove(session);
  }

  async make(): Promise<MoveOutcome> {
    try {
      return await withRenewal(
        async () => {
          if (this.marked.size > 0) await renewMarks(this.ctx, this.ownMarks());
        },
        () => this.attempt(),
        RENEW_EVERY_MS,
      );
    } catch (error) {
      // after a refusal for now the mark says that there may be a copy: the next attempt looks for it
      const isOver = this.hasTransferred ? cannotBeMade(error) : error instanceof MailError && error.refused;
      if (isOver) await this.stay();
      throw error;
    }
  }

  private async attempt(): Promise<MoveOutcome> {
    const { target, locations } = this;
    const there = locations.find((location) => location.folderId === target.id);
    const leaves = await this.leaves();
    const outcome: MoveOutcome = { target, removed: [], arrived: undefined };
    if (there) await this.keep(there);
    else {
      const from = leaves[0] ?? locations[0];
      for (const other of leaves.slice(1)) await this.mark(other);
      const { uid, left } = await this.bring(from);
      outcome.arrived = { uid, from };
      if (left) outcome.removed.push(from);
    }
    const others = (this.binned ? locations : leaves).filter(
      (location) => location.folderId !== target.id && location !== outcome.arrived?.from,
    );
    for (const location of others) if (await this.takeAway(location)) outcome.removed.push(location);
    outcome.kept = this.ownMarks().filter((location) => !outcome.removed.includes(location));
    return outcome;
  }

  /** The locations to remove. Of several, those that it cannot leave stay, such as one in a read-only folder. */
  private async leaves(): Promise<EmailLocation[]> {
    const { session } = this.ctx;
    const others = this.locations.filter((location) => location.folderId !== this.target.id);
    const real = others.filter((location) => !VIEWS.has(location.role));
    // On servers other than Gmail a folder of all mail that alone holds the email is treated as an ordinary folder.
    const isThere = others.length < this.locations.length;
    const wanted = real.length > 0 || this.gmail || isThere ? real : others;
    if (this.gmail || (wanted.length < 2 && !isThere)) return wanted;
    const possible: EmailLocation[] = [];
    for (const location of wanted) {
      try {
        await openLocation(this.ctx, location);
        assertDeletable(session);
        possible.push(location);
      } catch (error) {
        if (!cannotBeMade(error)) throw error;
      }
    }
    return possible.length > 0 || isThere ? possible : wanted;
  }

  private get binned(): boolean {
    return this.gmail && BINS.has(this.target.role);
  }

  /** It is there already: the provider confirms it, and it is not pending removal. */
  private async keep(location: EmailLocation): Promise<void> {
    const { session } = this.ctx;
    await openLocation(this.ctx, location);
    const flags = location.deleted
      ? await storeFlags(session, [location.uid], { remove: DELETED })
      : await fetchFlagSets(session, [location.uid]);
    if (!flags.has(location.uid)) throw new LocationChanged(location, { gone: true });
  }

  /** 1. Waits for another execution that moves it; after one that died, the target is synced to find its copy. */
  private async mark(location: EmailLocation): Promise<void> {
    const key = keyOf(location);
    // Before the mark, which would otherwise outlive a location that turns out to be another one.
    if (!this.marked.has(key)) {
      await openLocation(this.ctx, location);
      assertDeletable(this.ctx.session);
    }
    for (const until = performance.now() + OTHER_EXECUTION_MS; !this.marked.has(key); ) {
      const state = await mark(this.ctx, { ...location, emailId: this.emailId });
      if (state !== 'taken') this.marked.add(key);
      if (state === 'again') throw new LocationChanged(location, { gone: false, sync: [this.target.path] });
      if (state === 'taken' && performance.now() >= until) {
        throw new MailError('provider_error', 'imap', BEING_MOVED);
      }
      if (state === 'taken') await sleep(CHECK_EVERY_MS);
    }
  }

  /** Gets it into the target; its UID there, and whether it has left where it came from. */
  private async bring(from: EmailLocation): Promise<{ uid: number; left: boolean }> {
    const { ctx, target } = this;
    const { session } = ctx;
    // In Gmail all mail is in All Mail, and a copy elsewhere is a label.
    const stays = this.gmail && VIEWS.has(from.role) && !this.binned;
    const copies = stays || !this.canMove;
    if (copies && !stays) await this.mark(from);
    const mark = await targetMark(session, target);
    await openLocation(ctx, from);
    if (from.deleted) await storeFlags(session, [from.uid], { remove: DELETED });
    const leavesByCopy = copies && !stays;
    const before = leavesByCopy ? (await fetchFlagSets(session, [from.uid])).get(from.uid) : undefined;
    // 2.
    const moved = await this.transfer(from, copies ? copyMessages : moveMessages);
    const left = copies ? !stays : !this.gmail || (await this.hasLeft(from));
    const uid = await findArrival(ctx, from, target, { moved, mark });
    if (!leavesByCopy) return { uid, left };
    // 3.
    await this.keepFlags(from, { uid, before });
    await this.expunge(from);
    return { uid, left };
  }

  /**
   * Gives a copy the flags that others have changed since it was made. The store gets them from the call that changed
   * them, or from the next sync pass: each of these has its own event.
   */
  private async keepFlags(
    from: EmailLocation,
    { uid, before = new Set() }: { uid: number; before: ReadonlySet<string> | undefined },
  ): Promise<void> {
    const { session } = this.ctx;
    await openLocation(this.ctx, from);
    const now = (await storeFlags(session, [from.uid], { add: DELETED })).get(from.uid);
    if (!now) return;
    const isOwn = (flag: string) => flag !== '\\Deleted';
    const add = [...now].filter((flag) => isOwn(flag) && !before.has(flag));
    const remove = [...before].filter((flag) => isOwn(flag) && !now.has(flag));
    if (add.length + remove.length === 0) return;
    await openFolder(session, this.target.path);
    await storeFlags(session, [uid], { add, remove });
  }

  private async transfer(from: EmailLocation, transfer: typeof copyMessages): Promise<Moved> {
    const { ctx, target } = this;
    try {
      const moved = await transfer(ctx.session, [from.uid], target.path);
      if (moved.missing.length > 0) throw new LocationChanged(from, { gone: true, sync: [target.path] });
      this.hasTransferred = true;
      return moved;
    } catch (error) {
      throw error instanceof FolderMissing ? new LocationChanged(from, { gone: false }) : error;
    }
  }

  /** The provider refused a part of the move: the email is shown wherever it still is. */
  private stay(): Promise<void> {
    const { ctx, emailId } = this;
    return unmark(
      ctx,
      this.ownMarks().map((location) => ({ ...location, emailId })),
    );
  }

  /** The locations that this execution has marked as pending removal. */
  private ownMarks(): EmailLocation[] {
    return this.locations.filter((location) => this.marked.has(keyOf(location)));
  }

  /** Takes it out of another folder; false: it stays there, as sent mail does in Gmail's Sent. */
  private async takeAway(location: EmailLocation): Promise<boolean> {
    if (!this.gmail) {
      await this.expunge(location);
      return true;
    }
    await openLocation(this.ctx, location);
    if (await this.hasLeft(location)) return true;
    if (VIEWS.has(location.role)) return false;
    // Moving it takes the label off. An EXPUNGE may throw the mail away, depending on the mailbox's settings.
    await moveMessages(this.ctx.session, [location.uid], this.target.path);
    return this.hasLeft(location);
  }

  private async expunge(location: EmailLocation): Promise<void> {
    await openLocation(this.ctx, location);
    await expungeMessages(this.ctx.session, [location.uid]);
  }

  /** In the folder that is selected. */
  private async hasLeft({ uid }: EmailLocation): Promise<boolean> {
    return (await fetchFlagSets(this.ctx.session, [uid])).size === 0;
  }
}

/** The result of moving one email at the provider. */
export interface MoveOutcome {
  target: FolderState;
  /** the locations that it left */
  removed: EmailLocation[];
  /** its new location, and the one it was taken from; undefined when it was there before */
  arrived: { uid: number; from: EmailLocation } | undefined;
  /** the locations that were marked as pending removal, and that it did not leave */
  kept?: EmailLocation[];
}

interface FinishingMove extends MoveOutcome {
  finishes?: RunRef | undefined;
}

/** Commits the moves of emails that left one folder together, with their events; `also` runs in the transaction. */
export async function saveMoves(
  ctx: SyncContext,
  target: FolderState,
  moves: readonly { emailId: string; arrived: NonNullable<MoveOutcome['arrived']> }[],
  also: (tx: Tx) => Promise<void>,
): Promise<void> {
  const outcomes = moves.map(({ emailId, arrived }) => ({ emailId, removed: [arrived.from], arrived }));
  await inLease(ctx.db, ctx.lease, async (tx) => {
    await storeMoves(tx, ctx, { target, moves: outcomes });
    await also(tx);
  });
}

/** Commits a move with its event, which is emitted once, even if the watching activity has seen part of the move. */
export async function saveMove(ctx: SyncContext, emailId: string, outcome: FinishingMove): Promise<void> {
  const { target, removed, arrived, kept = [], finishes } = outcome;
  if (removed.length + kept.length === 0 && !arrived) {
    if (finishes) await recordFinishedRun(ctx.db, finishes);
    return;
  }
  await inLease(ctx.db, ctx.lease, (tx) =>
    storeMoves(tx, ctx, { target, moves: [{ emailId, removed, arrived, kept }], finishes }),
  );
}

async function storeMoves(
  tx: Tx,
  ctx: SyncContext,
  {
    target,
    moves,
    finishes,
  }: {
    target: FolderState;
    moves: readonly (Omit<MoveOutcome, 'target'> & { emailId: string })[];
    finishes?: RunRef | undefined;
  },
): Promise<void> {
  const arrivals = moves.flatMap(({ emailId, arrived }) => (arrived ? [{ emailId, arrived }] : []));
  const [first] = arrivals;
  // Others have seen that the target was deleted with the email in it, or that the email was moved again.
  if (first && !(await loadFolder(tx, target.id))) throw new LocationChanged(first.arrived.from, { gone: false });
  const emailIds = moves.map(({ emailId }) => emailId);
  await changeEmails(tx, { lease: ctx.lease, emailIds, now: new Date(), finishes }, async (before) => {
    const added = arrivals.map(({ emailId, arrived }) => {
      // Its flags may have changed since the move started, and a sync may have seen that it left.
      const stored = before.get(emailId)?.locations.find((location) => isAt(location, arrived.from));
      return {
        ...locationOf(ctx, emailId, target, arrived),
        ...(stored && { seen: stored.seen, flags: stored.flags }),
      };
    });
    const removed = moves.flatMap((move) => move.removed);
    await moveLocations(tx, { removed, added, settled: emailIds, touched: [target.id] });
    await clearPendingRemoval(
      tx,
      moves.flatMap(({ kept = [] }) => kept),
    );
  });
}

function isAt({ folderId, uid }: StoredLocation, location: EmailLocation): boolean {
  return folderId === location.folderId && uid === location.uid;
}

function locationOf(
  ctx: SyncContext,
  emailId: string,
  target: FolderState,
  { uid, from }: NonNullable<MoveOutcome['arrived']>,
): MovedLocation {
  const { seen, flags, identity, weakIdentity, serverId } = from;
  const accountId = ctx.account.id;
  return { folderId: target.id, uid, accountId, emailId, seen, flags, identity, weakIdentity, serverId };
}
