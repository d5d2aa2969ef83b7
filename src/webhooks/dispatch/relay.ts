import type { Client } from '@temporalio/client';
import { every } from '../../async.ts';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';
import { markStarted } from '../log/delivery-state.ts';
import { claimDeliveries, type ClaimedLine, type Turn } from './claim.ts';
import { type ClaimedRun, unstartedRuns } from './delivery-queries.ts';
import { startDeliveryRun } from './delivery-runs.ts';
import { type DueLine, type Line, listDueLines } from './due-lines.ts';
import { type RunEnd, Turns } from './turns.ts';

/*
 * The way of a delivery, drawn in docs/webhook-dispatch.md:
 *
 * dispatch/relay.ts              woken by notifications: lists the lines that are due, gives turns, starts runs
 *          due-lines.ts          which endpoints have something due
 *          turns.ts              which of them may have a run now
 *          claim.ts              what of it a run gets: the events of each object in their order
 *          plan-runs.ts          a run for each delivery, or for many
 *          delivery-runs.ts      starts the run (workflow `deliverWebhooks`), which runs the activity `attemptDeliveries`
 *          lost-runs.ts          finds deliveries whose run was terminated or lost
 * attempt/ attempts.ts           one attempt of each delivery of the run: the signed call, and when the next one is due
 * log/     result-store.ts       stores the results, many in one statement
 *          delivery-state.ts     the states of a delivery and every transition between them
 */

/** Milliseconds. */
const TIMES = {
  /** between two looks without a notification: one that was lost delays a delivery by a second */
  poll: 1_000,
  /** between two looks at least: what was notified in between goes in one */
  spacing: 10,
  /** between two queries for runs that may never have been started */
  sweep: 5_000,
  /** a run that was claimed so long ago and is not marked may have been lost with its worker: more than a start takes */
  unstarted: 10_000,
  /** until a run that could not be started is started again */
  startAgain: 1_000,
  /** how long a run that another worker took counts as under way: its end is not reported here */
  elsewhere: 1_000,
  /** between two writes that mark runs as started; most have stored a result by then, which marks them too */
  mark: 2_000,
};

export interface RelayDeps {
  db: Db;
  /** shares its connection with workers of this process */
  client: Client;
  /** Calls `wake` when deliveries have been added; returns how to stop. Reconnects when its connection breaks. */
  listen(wake: () => void): { close(): Promise<void> };
  logger: Logger;
}

/** The store and Temporal, as the relay needs them. */
export interface Dispatching extends Pick<RelayDeps, 'listen' | 'logger'> {
  due(after: Line | undefined): Promise<{ lines: DueLine[]; next: Line | undefined }>;
  claim(turns: readonly Turn[]): Promise<ClaimedLine[]>;
  /** runs that were claimed some time ago and are not known to have been started */
  unstarted(): Promise<ClaimedRun[]>;
  /** Starts a run; doing it again does nothing. Whether its first task was given to this process. */
  start(run: ClaimedRun): Promise<boolean>;
  markStarted(runs: readonly { workflowId: string; deliveryId: string }[]): Promise<void>;
  times?: Partial<typeof TIMES>;
}

/** Gives the deliveries of the queue to runs. What waits for one endpoint delays no other. */
export interface Relay {
  /** Attempts of a run have begun, or have ended: then its line may have its next turn. */
  attempts(workflowId: string, are: 'begun' | 'ended', end?: RunEnd): void;
  /** Claims nothing after that, and waits for starts under way. */
  stop(): Promise<void>;
}

/** Starts a relay on the store and Temporal. */
export function startRelay({ db, client, listen, logger }: RelayDeps): Relay {
  return relayOf({
    due: (after) => listDueLines(db, { after }),
    claim: (turns) => claimDeliveries(db, turns),
    unstarted: () => unstartedRuns(db, TIMES.unstarted),
    start: (run) => startDeliveryRun(client, run, { eager: true }),
    markStarted: (runs) => markStarted(db, runs),
    listen,
    logger,
  });
}

/** Starts a relay. */
export function relayOf(deps: Dispatching): Relay {
  const loop = new RelayLoop(deps);
  let stopping: Promise<void> | undefined;
  return {
    attempts: (workflowId, are, end) => loop.attempts(workflowId, are, end),
    stop: () => (stopping ??= loop.stop()),
  };
}

class RelayLoop {
  readonly #deps;
  readonly #times;
  readonly #turns = new Turns();
  /** lines up to this one have been looked at; undefined: all have */
  #after: Line | undefined;
  /** notifications so far */
  #notices = 0;
  #woken = true;
  #stopped = false;
  #endRest = () => {};
  readonly #starting = new Set<Promise<void>>();
  /** runs of started deliveries that are not marked yet, by delivery */
  readonly #toMark = new Map<string, string>();
  readonly #listener;
  readonly #looking;
  readonly #repeated;

  constructor(deps: Dispatching) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...deps.times };
    this.#listener = deps.listen(() => {
      this.#notices += 1;
      this.#wake();
    });
    this.#looking = this.#lookUntilStopped();
    this.#repeated = [
      every(this.#times.sweep, async () => this.#startAll(await deps.unstarted()), deps.logger),
      every(this.#times.mark, () => this.#mark(), deps.logger),
    ];
  }

  attempts(workflowId: string, are: 'begun' | 'ended', end: RunEnd = {}): void {
    if (are === 'begun') return this.#turns.renew(workflowId);
    const run = this.#turns.ended(workflowId, end);
    // nothing has come since it was claimed, and the claim left nothing: nothing can be due by its end
    if (end.isDelivered && run?.notices === this.#notices) return;
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#endRest();
    await Promise.all([this.#listener.close(), this.#looking]);
    await Promise.all(this.#starting);
    await Promise.all(this.#repeated.map((each) => each.stop()));
    await this.#mark().catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'could not record which delivery workflows were started');
    });
  }

  #wake(): void {
    this.#woken = true;
    this.#endRest();
  }

  async #lookUntilStopped(): Promise<void> {
    while (!this.#stopped) {
      // what is notified during a round over the lines may be of one that had its turn
      if (this.#after === undefined) this.#woken = false;
      const againInMs = await this.#look().catch((err: unknown) => {
        this.#deps.logger.warn({ err }, 'could not claim deliveries');
        return undefined;
      });
      await new Promise((resolve) => setTimeout(resolve, this.#times.spacing));
      await this.#rest(Math.min(this.#times.poll, againInMs ?? Number.POSITIVE_INFINITY));
    }
  }

  /** One look at the lines that are due; ms until the next one, undefined: there is nothing to wait for but a notification. */
  async #look(): Promise<number | undefined> {
    const notices = this.#notices;
    const after = this.#after;
    this.#after = undefined;
    const { lines, next } = await this.#deps.due(after);
    this.#after = next;
    const { turns, againInMs } = this.#turns.choose(lines);
    const claimed = turns.length > 0 ? await this.#deps.claim(turns) : [];
    for (const line of claimed) {
      this.#turns.took(line);
      const isLeft = line.hasMore || line.isBehind || next !== undefined;
      this.#startAll(line.runs, { isPoor: line.turn.isPoor, notices: isLeft ? undefined : notices });
    }
    const isMore = next !== undefined || claimed.some(({ hasMore }) => hasMore);
    return isMore ? 0 : againInMs;
  }

  /** Waits until woken, at most `ms`. */
  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endRest = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#woken || this.#stopped) this.#endRest();
    });
  }

  /** `notices`: notifications until they were claimed, where the claim left nothing. */
  #startAll(
    runs: readonly ClaimedRun[],
    how: { isPoor: boolean; notices: number | undefined } = { isPoor: false, notices: undefined },
  ): void {
    for (const run of runs) {
      if (this.#turns.isUnderWay(run.workflowId)) continue;
      const done = this.#start(run, how).finally(() => this.#starting.delete(done));
      this.#starting.add(done);
    }
  }

  /** Starts a run, again and again until Temporal has it. */
  async #start(run: ClaimedRun, how: { isPoor: boolean; notices: number | undefined }): Promise<void> {
    const { workflowId, deliveries } = run;
    const [first] = deliveries;
    if (first) this.#turns.began(workflowId, { line: first, ...how });
    while (!this.#stopped) {
      try {
        const isHere = await this.#deps.start(run);
        for (const { id } of deliveries) this.#toMark.set(id, workflowId);
        if (!isHere) setTimeout(() => this.attempts(workflowId, 'ended'), this.#times.elsewhere).unref();
        return;
      } catch (err) {
        this.#deps.logger.warn({ err, workflowId }, 'could not start delivery workflow; will retry');
        this.#turns.renew(workflowId);
        await new Promise((resolve) => setTimeout(resolve, this.#times.startAgain));
      }
    }
  }

  async #mark(): Promise<void> {
    const runs = [...this.#toMark].map(([deliveryId, workflowId]) => ({ deliveryId, workflowId }));
    if (runs.length === 0) return;
    await this.#deps.markStarted(runs);
    for (const { deliveryId, workflowId } of runs) {
      if (this.#toMark.get(deliveryId) === workflowId) this.#toMark.delete(deliveryId);
    }
  }
}
