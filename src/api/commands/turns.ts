import { type PartUnavailable, unavailablePart } from '../../outage.ts';

/** A call whose turn did not come: none of its work was begun. */
export class NotBegun extends Error {
  override readonly name = 'NotBegun';
  /** the part of the installation that is away, where that is why */
  readonly outage: PartUnavailable | undefined;
  constructor(outage?: PartUnavailable) {
    super('its turn did not come', outage === undefined ? undefined : { cause: outage });
    this.outage = outage;
  }
}

/**
 * Limits how many works of each key (an account, a mail server) run at once. The others wait here, in the API process, and
 * occupy no slot of a worker, which all keys share.
 */
export interface Turns {
  /**
   * Runs `work` when fewer works of the key are under way than its share; the others wait in the order of their calls.
   * @throws NotBegun after `waitMs`, or as soon as a work of the key fails because a part of the installation is away
   */
  inTurn<T>(key: string, waitMs: number, work: () => Promise<T>): Promise<T>;
}

interface Waiting {
  begin(): void;
  reject(error: NotBegun): void;
}

/** Lets `share` works of each key run at a time. */
export function createTurns(share: number): Turns {
  const keys = new Map<string, { underWay: number; waiting: Set<Waiting> }>();

  const turn = (key: string, waitMs: number): Promise<void> | undefined => {
    const own = keys.get(key) ?? { underWay: 0, waiting: new Set() };
    keys.set(key, own);
    if (own.underWay < share) {
      own.underWay += 1;
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const settle = (how: () => void) => {
        clearTimeout(timer);
        own.waiting.delete(waiting);
        how();
      };
      const waiting: Waiting = {
        begin: () => settle(resolve),
        reject: (error) => settle(() => reject(error)),
      };
      const timer = setTimeout(() => waiting.reject(new NotBegun()), waitMs);
      own.waiting.add(waiting);
    });
  };

  const leave = (key: string): void => {
    const own = keys.get(key);
    if (!own) return;
    const [next] = own.waiting;
    // the place passes from one to the other
    if (next) return next.begin();
    own.underWay -= 1;
    if (own.underWay === 0) keys.delete(key);
  };

  return {
    async inTurn(key, waitMs, work) {
      await turn(key, waitMs);
      try {
        return await work();
      } catch (error) {
        const outage = unavailablePart(error);
        if (outage) for (const { reject } of keys.get(key)?.waiting ?? []) reject(new NotBegun(outage));
        throw error;
      } finally {
        leave(key);
      }
    },
  };
}
