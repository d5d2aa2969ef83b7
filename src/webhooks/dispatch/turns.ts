import { LINES } from '../../db/outbox.ts';
import type { ClaimedLine, Turn } from './claim.ts';
import type { DueLine, Line } from './due-lines.ts';
import { MAX_BATCH } from './plan-runs.ts';

/*
 * Who gets a turn. A run costs the same for one delivery and for fifty, about 20 ms of CPU here and in Temporal: what counts
 * is how many runs there are, and whose. See docs/webhook-dispatch.md.
 */

/**
 * Runs that make their first attempts. Eight for each of two cores keep them busy while calls wait for the network; more end no
 * sooner, and everything else on the machine waits behind them.
 */
const PLACES = 16;
/** Of these, places of poor endpoints: three quarters are left to those that work. */
const POOR_PLACES = 4;
/** Places of one line, however few others there are: its calls at a time are bounded anyway (call-slots.ts). */
const MOST_OF_A_LINE = 4;
/** Ten times what a run takes whose endpoint responds at once. From then on it waits for its endpoint, and takes no place. */
const SLOW_MS = 300;
/** Runs that wait for their endpoint: the worker executes 1,000 activities at a time (src/temporal/workers.ts). */
const MOST_SLOW = 800;
/** After a turn that left nothing: events of one change come a few ms apart, and go in one run. People notice no 20 ms. */
const GATHER_MS = 20;
/** A poor line has a turn a second at most; what it gets wrong is repeated by a schedule of seconds and more. */
const POOR_MS = 1_000;
/** All poor lines together get a run in so many ms: a tenth of what two cores can do. */
const POOR_GAP_MS = 250;
/** A minute without a turn, or without a long response, and a line counts as any other. */
const FORGET_MS = 60_000;
/** A run without news for so long is on another worker, or waits for one: longer than a call of the default timeout. */
const EXPIRY_MS = 45_000;
/** What one turn may take: two whole batches. */
const MOST_PER_TURN = 2 * MAX_BATCH;

/** What came of the first attempts of a run. */
export interface RunEnd {
  /** the endpoint sends long responses */
  isCostly?: boolean;
  /** all were delivered */
  isDelivered?: boolean;
}

interface Run {
  line: Line;
  isPoor: boolean;
  /** see the relay */
  notices: number | undefined;
  since: number;
}

const keyOf = ({ endpointId, line }: Line) => `${endpointId} ${line}`;

/**
 * The turns of lines. A poor line is one whose endpoint failed last, or sends long responses. Pure: what
 * happens, and the time, are passed to it.
 */
export class Turns {
  readonly #now: () => number;
  readonly #runs = new Map<string, Run>();
  readonly #notBefore = new Map<string, number>();
  /** the last turn of each poor line, and the last long response of each endpoint */
  readonly #poor = new Map<string, number>();
  readonly #long = new Map<string, number>();

  /** `now` is in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Which of these lines have a turn now, in their order. `againInMs`: when another of them may have one, if no run ends before. */
  choose(lines: readonly DueLine[]): { turns: Turn[]; againInMs: number | undefined } {
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
    for (const due of lines) {
      const isPoor = due.isFailing || this.#long.has(due.endpointId);
      const notBefore = this.#notBefore.get(keyOf(due)) ?? now;
      const own = Math.min(this.#placesOf(due, isPoor ? 1 : share), places);
      if (notBefore > now) waitFor(notBefore - now);
      else if (own > 0 && (!isPoor || poorPlaces > 0)) {
        // a poor line has one run at a time, whatever waits
        const most = due.isProbe ? 1 : isPoor ? MAX_BATCH : MOST_PER_TURN;
        turns.push({ ...due, isPoor, most, alone: isPoor ? 1 : own });
        places -= 1;
        if (isPoor) poorPlaces -= 1;
      } else waitFor(SLOW_MS);
    }
    return { turns, againInMs };
  }

  /** What a turn got. */
  took({ turn, hasMore }: ClaimedLine): void {
    const now = this.#now();
    const key = keyOf(turn);
    if (turn.isPoor) {
      this.#poor.set(key, now);
      this.#notBefore.set(key, now + Math.max(POOR_MS, this.#poor.size * POOR_GAP_MS));
    } else {
      this.#poor.delete(key);
      if (!hasMore) this.#notBefore.set(key, now + GATHER_MS);
    }
  }

  began(workflowId: string, run: Omit<Run, 'since'>): void {
    this.#runs.set(workflowId, { ...run, since: this.#now() });
  }

  /** The run is being started again, or has begun its attempts: it counts from now. */
  renew(workflowId: string): void {
    const run = this.#runs.get(workflowId);
    if (run) run.since = this.#now();
  }

  /** The first attempts of a run have ended; undefined: it was not counted. */
  ended(workflowId: string, { isCostly = false, isDelivered = false }: RunEnd = {}): Run | undefined {
    const run = this.#runs.get(workflowId);
    if (!run) return undefined;
    this.#runs.delete(workflowId);
    const { line } = run;
    if (isCostly) this.#long.set(line.endpointId, this.#now());
    // it works: it does not wait for the turn that it had as a poor one
    else if (isDelivered && run.isPoor && this.#poor.delete(keyOf(line))) this.#notBefore.delete(keyOf(line));
    return run;
  }

  isUnderWay(workflowId: string): boolean {
    return this.#runs.has(workflowId);
  }

  /** Places that are left of the share of a line: none while one of its runs waits for its endpoint. */
  #placesOf(line: DueLine, share: number): number {
    const own = [...this.#runs.values()].filter((run) => keyOf(run.line) === keyOf(line));
    if (own.some(({ since }) => this.#now() - since >= SLOW_MS)) return 0;
    const most = line.line === LINES.live ? share : 1;
    return Math.max(0, most - own.length);
  }

  #forget(now: number): void {
    for (const [id, { since }] of this.#runs) if (now - since >= EXPIRY_MS) this.#runs.delete(id);
    for (const [key, at] of this.#notBefore) if (at <= now) this.#notBefore.delete(key);
    for (const times of [this.#poor, this.#long]) {
      for (const [key, at] of times) if (now - at >= FORGET_MS) times.delete(key);
    }
  }
}
