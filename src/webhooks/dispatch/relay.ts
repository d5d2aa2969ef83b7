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
 * The path of a delivery, drawn in docs/webhook-dispatch.md:
 *
 * dispatch/relay.ts              woken by notifications; gives lines their turns, starts runs
 *          due-lines.ts          lists the lines with deliveries that are due
 *          turns.ts              decides which of them get a turn now
 *          claim.ts              takes their deliveries: the events of each object in their order
 *          plan-runs.ts          splits them into runs
 *          delivery-runs.ts      starts the run (workflow `deliverWebhooks`), which runs the activity `attemptDeliveries`
 *          lost-runs.ts          repairs deliveries whose run was terminated or lost
 * attempt/ attempts.ts           one attempt of each delivery of the run: the signed call, and the time of the next one
 * log/     result-store.ts       stores the results, many in one statement
 *          delivery-state.ts     the states of a delivery and every transition between them
 */

/** Milliseconds. */
const TIMES = {
  /** between two looks without a notification: a lost one delays a delivery by a second */
  poll: 1_000,
  /** between two looks at least: notifications of one change go into one look */
  spacing: 10,
  /** between two queries for runs that may not have been started: a killed worker delays its claims by `unstarted` and this */
  sweep: 5_000,
  /** age from which a claimed run that is not marked may have been lost with its worker: more than a start takes */
  unstarted: 10_000,
  /** until a run that could not be started is started again: Temporal is restarting, or overloaded */
  startAgain: 1_000,
  /** how long a run on another worker counts as under way: its end is not reported here */
  elsewhere: 1_000,
  /** between two writes that mark runs as started: most have stored a result by then, which marks them too */
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
  /** Reads runs that were claimed some time ago and are not marked as started. */
  unstarted(): Promise<ClaimedRun[]>;
  /** Starts a run; starting it again does nothing. Resolves with whether this process got its first task. */
  start(run: ClaimedRun): Promise<boolean>;
  markStarted(runs: readonly { workflowId: string; deliveryId: string }[]): Promise<void>;
  times?: Partial<typeof TIMES>;
}

/** Starts a relay with the store and Temporal. */
export function startRelay({ db, client, listen, logger }: RelayDeps): Relay {
  return new Relay({
    due: (after) => listDueLines(db, { after }),
    claim: (turns) => claimDeliveries(db, turns),
    unstarted: () => unstartedRuns(db, TIMES.unstarted),
    start: (run) => startDeliveryRun(client, run, { eager: true }),
    markStarted: (runs) => markStarted(db, runs),
    listen,
    logger,
  });
}

/** Gives the deliveries of the queue to runs, from its construction until `stop`. Deliveries to one endpoint delay no other. */
export class Relay {
  readonly #deps;
  readonly #times;
  readonly #turns = new Turns();
  /** the next look begins after this line; undefined: with the first one */
  #after: Line | undefined;
  /** that look begins with a line that found no place; another round over all lines follows it */
  #isResuming = false;
  /** a line of the last look got no turn: it may get one when a run ends */
  #isWaiting = false;
  #woken = true;
  #endRest = () => {};
  readonly #starting = new Set<Promise<void>>();
  /** started deliveries that are not marked yet, each with its run */
  readonly #toMark = new Map<string, string>();
  readonly #listener;
  readonly #looking;
  readonly #repeated;
  #stopping: Promise<void> | undefined;

  constructor(deps: Dispatching) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...deps.times };
    this.#listener = deps.listen(() => this.#wake());
    this.#looking = this.#lookUntilStopped();
    this.#repeated = [
      every(this.#times.sweep, async () => this.#startAll(await deps.unstarted()), deps.logger),
      every(this.#times.mark, () => this.#mark(), deps.logger),
    ];
  }

  /** Attempts of a run have begun, or have ended: then its line may have its next turn. */
  attempts(workflowId: string, are: 'begun' | 'ended', end: RunEnd = {}): void {
    if (are === 'begun') return this.#turns.renew(workflowId);
    this.#turns.ended(workflowId, end);
    if (this.#isWaiting) this.#wake();
  }

  /** Ends claiming; resolves when the starts under way have ended. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#endRest();
    await Promise.all([this.#listener.close(), this.#looking]);
    await Promise.all(this.#starting);
    await Promise.all(this.#repeated.map((each) => each.stop()));
    await this.#mark().catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'could not record which delivery workflows were started');
    });
  }

  get #isStopped(): boolean {
    return this.#stopping !== undefined;
  }

  #wake(): void {
    this.#woken = true;
    this.#endRest();
  }

  async #lookUntilStopped(): Promise<void> {
    while (!this.#isStopped) {
      // a notification during a round may be about a line that has had its turn in it: another round follows
      if (this.#after === undefined || this.#isResuming) this.#woken = false;
      const againInMs = await this.#look().catch((err: unknown) => {
        this.#deps.logger.warn({ err }, 'could not claim deliveries');
        return undefined;
      });
      await new Promise((resolve) => setTimeout(resolve, this.#times.spacing));
      await this.#rest(Math.min(this.#times.poll, againInMs ?? Number.POSITIVE_INFINITY));
    }
  }

  /** One look at the lines that are due; ms until the next one, undefined: only a notification can change what is due. */
  async #look(): Promise<number | undefined> {
    const after = this.#after;
    this.#after = undefined;
    const { lines, next } = await this.#deps.due(after);
    const { turns, considered, againInMs } = this.#turns.choose(lines);
    this.#isWaiting = turns.length < lines.length;
    const isFull = considered < lines.length;
    this.#after = isFull ? (lines[considered - 1] ?? after) : next;
    const claimed = turns.length > 0 ? await this.#deps.claim(turns) : [];
    for (const line of claimed) {
      this.#turns.took(line);
      this.#startAll(line.runs, line.turn.isPoor);
    }
    const isMore = !isFull && (next !== undefined || this.#isResuming || claimed.some(({ hasMore }) => hasMore));
    if (this.#after === undefined || isFull) this.#isResuming = isFull;
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
      if (this.#woken || this.#isStopped) this.#endRest();
    });
  }

  #startAll(runs: readonly ClaimedRun[], isPoor = false): void {
    for (const run of runs) {
      if (this.#turns.isUnderWay(run.workflowId)) continue;
      const done = this.#start(run, isPoor).finally(() => this.#starting.delete(done));
      this.#starting.add(done);
    }
  }

  /** Starts a run, repeatedly until Temporal has it. */
  async #start(run: ClaimedRun, isPoor: boolean): Promise<void> {
    const { workflowId, deliveries } = run;
    const [first] = deliveries;
    if (first) this.#turns.began(workflowId, { line: first, isPoor });
    while (!this.#isStopped) {
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
