/** An endpoint that fails, has never succeeded, or has sent a long response counts as costly for so long. */
const COSTLY_MS = 60_000;
/** Costly endpoints that may get runs at once, and ms between two of their runs. */
const COSTLY_TURNS = 1;
const COSTLY_PACE_MS = 250;
/** ms until the next turn, at most. */
const MAX_WAIT_MS = 5_000;

/**
 * The endpoints that fail, have never responded with success, or send long responses. They take turns, whatever they have
 * waiting.
 */
export class CostlyEndpoints {
  /** until when each counts as one; the next to have a turn comes first */
  readonly #until = new Map<string, number>();
  readonly #withLongResponses = new Map<string, number>();
  #nextTurn = 0;
  /** when one of them had a turn last, or a run before any had one */
  #lastTurn: number | undefined;

  has(endpointId: string): boolean {
    return this.#until.has(endpointId);
  }

  hasLongResponses(endpointId: string): boolean {
    return this.#withLongResponses.has(endpointId);
  }

  noteLongResponse(endpointId: string, now: number): void {
    this.#withLongResponses.set(endpointId, now + COSTLY_MS);
    this.#until.set(endpointId, now + COSTLY_MS);
  }

  noteHealth(endpointId: string, isHealthy: boolean, now: number): void {
    if (!isHealthy) this.#until.set(endpointId, now + COSTLY_MS);
    else if (!this.hasLongResponses(endpointId)) this.#until.delete(endpointId);
  }

  removeExpired(now: number): void {
    deletePast(this.#until, now);
    deletePast(this.#withLongResponses, now);
  }

  /** A run of an endpoint has begun. */
  began(endpointId: string, now: number): void {
    if (!this.has(endpointId)) return;
    this.#lastTurn ??= now;
    this.#nextTurn = Math.max(now, this.#nextTurn) + COSTLY_PACE_MS;
  }

  /** One of them has had its turn. */
  hadTurn(endpointId: string, now: number): void {
    this.#lastTurn = now;
    // many runs at once, as after a start, do not put the turns off for long
    this.#nextTurn = Math.min(this.#nextTurn, now + MAX_WAIT_MS);
    const until = this.#until.get(endpointId);
    if (until === undefined) return;
    this.#until.delete(endpointId);
    this.#until.set(endpointId, until);
  }

  ids(): string[] {
    return [...this.#until.keys()];
  }

  /** Those that have their turn now, of the ones that may get a run. */
  turns(now: number, mayRun: (endpointId: string) => boolean): string[] {
    const isEarly = this.#nextTurn > now && now - (this.#lastTurn ?? now) < MAX_WAIT_MS;
    return isEarly ? [] : this.ids().filter(mayRun).slice(0, COSTLY_TURNS);
  }
}

/** Whether the endpoint fails, or has never succeeded. */
export function isCostly({ isFailing, isProven }: { isFailing: boolean; isProven: boolean }): boolean {
  return isFailing || !isProven;
}

/** Deletes what is over. */
export function deletePast(times: Map<string, number>, now: number): void {
  for (const [key, at] of times) if (at <= now) times.delete(key);
}
