import type { Db } from '../../db/driver/client.ts';
import { type DeliveryTarget, loadTargets } from './due-deliveries.ts';

/** From this age on, ms, the copy of an endpoint is read again before a call: owners see their changes act, and fast rounds read once. */
const FRESH_MS = 1_000;

type Targets = ReadonlyMap<string, DeliveryTarget>;

/** The endpoints of a round as they are now: a slow round takes a minute, in which a secret may be replaced or an endpoint disabled. */
export class RoundTargets {
  readonly #db: Db;
  #first: Targets = new Map();
  #current: Targets | Promise<Targets> = this.#first;
  #readAt = 0;

  constructor(db: Db) {
    this.#db = db;
  }

  /** The round begins; `targets` have just been read. */
  begin(targets: Targets): void {
    this.#first = targets;
    this.#current = targets;
    this.#readAt = performance.now();
  }

  /** The endpoint; undefined when it was deleted. */
  async get(id: string): Promise<DeliveryTarget | undefined> {
    if (performance.now() - this.#readAt >= FRESH_MS) {
      this.#readAt = performance.now();
      this.#current = this.#read();
    }
    return (await this.#current).get(id);
  }

  /** The next `get` reads again. */
  expire(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  async #read(): Promise<Targets> {
    const targets = await loadTargets(this.#db, [...this.#first.keys()]);
    // the round itself counts those of its runs that have begun to wait since
    for (const target of targets.values())
      target.retryingRuns = this.#first.get(target.id)?.retryingRuns ?? target.retryingRuns;
    return targets;
  }
}
