import { LINES } from '../../db/outbox.ts';
import type { ClaimedLine, Turn } from './claim.ts';
import type { DueLine, Line } from './due-lines.ts';
import { MAX_BATCH } from './plan-runs.ts';

/*
 * Which line gets a turn. A run costs the same for one delivery and for fifty, about 20 ms of CPU here and in Temporal: the load
 * depends on how many runs there are. See docs/webhook-dispatch.md.
 */

/**
 * Runs that make their first attempts. Eight for each of two cores keep them busy while calls wait for the network; more would end no
 * sooner, and delay everything else on the machine.
 */
const PLACES = 16;
/** Of these, places of poor lines: enough for their turns (POOR_GAP_MS) where each takes SLOW_MS; more would begin together. */
const POOR_PLACES = 2;
/** Places of one line at most: its concurrent calls are bounded anyway (call-slots.ts). */
const MOST_OF_A_LINE = 4;
/** Ten times the duration of a run whose endpoint responds immediately. A run that takes longer waits for its endpoint, without a place. */
const SLOW_MS = 300;
/** Runs that wait for their endpoint: the worker executes 1,000 activities at a time (src/temporal/workers.ts). */
const MOST_SLOW = 800;
/** Pause after a turn that left nothing: events of one change come a few ms apart and go into one run. Nothing notices 20 ms. */
const GATHER_MS = 20;
/** From so many deliveries a second on, a line gathers them for longer, into fewer runs. */
const BUSY_PER_SECOND = 8;
const BUSY_GATHER_MS = 250;
/** The surplus over that from which a line is busy: what comes in half a second at that rate. */
const BUSY_FROM = BUSY_PER_SECOND / 2;
/** A poor line has at most one turn a second: its retries follow a schedule of seconds and more anyway. */
const POOR_MS = 1_000;
/** All poor lines together get one run in this time: less than a tenth of what two cores can do. */
const POOR_GAP_MS = 250;
/** After a minute without a turn, or without a long response, a line is no longer poor. */
const FORGET_MS = 60_000;
/** A run without news for this time is on another worker, or waits for one: longer than a call of the default timeout. */
const EXPIRY_MS = 45_000;
/** Deliveries of one turn: two batches, so that claims cost little and others get their turn soon. */
const MOST_PER_TURN = 2 * MAX_BATCH;

/** The outcome of the first attempts of a run. */
export interface RunEnd {
  /** the endpoint has sent a long response */
  isCostly?: boolean;
}

interface Run {
  line: Line;
  isPoor: boolean;
  since: number;
}

interface LastTurn {
  at: number;
  isPoor: boolean;
  leftNothing: boolean;
  /** deliveries beyond BUSY_PER_SECOND, at most twice BUSY_FROM */
  surplus: number;
}

const keyOf = ({ endpointId, line }: Line) => `${endpointId} ${line}`;

/**
 * The turns of lines. A poor line is one whose endpoint failed last, or sends long responses. Pure: events and the time are
 * passed to it.
 */
export class Turns {
  readonly #now: () => number;
  readonly #runs = new Map<string, Run>();
  /** the last turn of each line */
  readonly #last = new Map<string, LastTurn>();
  /** the last long response of each endpoint */
  readonly #long = new Map<string, number>();

  /** `now` is in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Which of these lines have a turn now, in their order. `considered`: how many were looked at until no place was left.
   * `againInMs`: when another of them may have a turn, if no run ends before.
   */
  choose(lines: readonly DueLine[]): { turns: Turn[]; considered: number; againInMs: number | undefined } {
    const now = this.#now();
    this.#forget(now);
    const active = new Set([...[...this.#runs.values()].map(({ line }) => keyOf(line)), ...lines.map(keyOf)]).size;
    const share = Math.min(MOST_OF_A_LINE, Math.max(1, Math.floor(PLACES / Math.max(1, active))));
    const working = [...this.#runs.values()].filter(({ since }) => now - since < SLOW_MS);
    let places = this.#runs.size - working.length < MOST_SLOW ? PLACES - working.length : 0;
    let poorPlaces = POOR_PLACES - working.filter(({ isPoor }) => isPoor).length;
    const turns: Turn[] = [];
    let againInMs: number | undefined;
    const waitFor = (ms: number) => (againInMs = Math.min(ms, againInMs ?? ms));
    let considered = 0;
    for (; places > 0 && considered < lines.length; considered++) {
      const due = lines[considered] as DueLine;
      const isPoor = due.isFailing || this.#long.has(due.endpointId);
      const own = Math.min(this.#placesOf(due, isPoor ? 1 : share), places);
      const rest = this.#restOf(due, isPoor) - now;
      if (rest > 0) waitFor(rest);
      else if (own > 0 && (!isPoor || poorPlaces > 0)) {
        // a poor line has one run at a time, whatever waits
        const most = due.isProbe ? 1 : isPoor ? MAX_BATCH : MOST_PER_TURN;
        turns.push({ ...due, isPoor, most, alone: this.#isOneRun(due, isPoor) ? 1 : own });
        places -= 1;
        if (isPoor) poorPlaces -= 1;
      } else waitFor(SLOW_MS);
    }
    if (considered < lines.length) waitFor(SLOW_MS);
    return { turns, considered, againInMs };
  }

  /** Notes what a turn has taken. */
  took({ turn, runs, hasMore }: ClaimedLine): void {
    const at = this.#now();
    const taken = runs.reduce((sum, { deliveries }) => sum + deliveries.length, 0);
    const surplus = Math.min(this.#surplusOf(turn) + taken, 2 * BUSY_FROM);
    this.#last.set(keyOf(turn), { at, isPoor: turn.isPoor, leftNothing: !hasMore, surplus });
  }

  /** A run is being started. */
  began(workflowId: string, run: Omit<Run, 'since'>): void {
    this.#runs.set(workflowId, { ...run, since: this.#now() });
  }

  /** A run is being started again, or has begun its attempts: its time counts from now. */
  renew(workflowId: string): void {
    const run = this.#runs.get(workflowId);
    if (run) run.since = this.#now();
  }

  /** The first attempts of a run have ended. */
  ended(workflowId: string, { isCostly = false }: RunEnd = {}): void {
    const run = this.#runs.get(workflowId);
    this.#runs.delete(workflowId);
    if (run && isCostly) this.#long.set(run.line.endpointId, this.#now());
  }

  isUnderWay(workflowId: string): boolean {
    return this.#runs.has(workflowId);
  }

  /** Places left of the share of a line; none while one of its runs waits for its endpoint. */
  #placesOf(line: DueLine, share: number): number {
    const own = [...this.#runs.values()].filter((run) => keyOf(run.line) === keyOf(line));
    if (own.some(({ since }) => this.#now() - since >= SLOW_MS)) return 0;
    const most = line.line === LINES.live ? share : 1;
    return Math.max(0, most - own.length);
  }

  /** When a line may have its next turn: one that is no longer poor waits for nothing. */
  #restOf(line: DueLine, isPoor: boolean): number {
    const last = this.#last.get(keyOf(line));
    if (!last || last.isPoor !== isPoor) return 0;
    if (!isPoor) return last.leftNothing ? last.at + (this.#isOneRun(line, isPoor) ? BUSY_GATHER_MS : GATHER_MS) : 0;
    const poorLines = [...this.#last.values()].filter((each) => each.isPoor).length;
    return last.at + Math.max(POOR_MS, poorLines * POOR_GAP_MS);
  }

  /** Whether a turn of the line makes one run, if it can. */
  #isOneRun(line: Line, isPoor: boolean): boolean {
    return isPoor || this.#surplusOf(line) > BUSY_FROM;
  }

  #surplusOf(line: Line): number {
    const last = this.#last.get(keyOf(line));
    return last ? Math.max(0, last.surplus - ((this.#now() - last.at) / 1_000) * BUSY_PER_SECOND) : 0;
  }

  #forget(now: number): void {
    for (const [id, { since }] of this.#runs) if (now - since >= EXPIRY_MS) this.#runs.delete(id);
    for (const [key, { at }] of this.#last) if (now - at >= FORGET_MS) this.#last.delete(key);
    for (const [endpointId, at] of this.#long) if (now - at >= FORGET_MS) this.#long.delete(endpointId);
  }
}
