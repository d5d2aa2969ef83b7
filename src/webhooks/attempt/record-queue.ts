/** Writes results as they come: immediately when idle; those that come during a write go together into the next one. */
export interface RecordQueue<T> {
  /**
   * Resolves when the result is stored or given up. A write that fails is repeated until then: no result may be lost while the
   * process lives and the store accepts it.
   */
  add(key: string, result: T): Promise<void>;
  /** the write of the result with that key, if it is still under way */
  pending(key: string): Promise<void> | undefined;
}

export interface RecordQueueOptions<T> {
  /** May see a result twice: a write can fail after it was committed. */
  write(results: readonly T[]): Promise<void>;
  /** whether the error is not caused by the results: the store is unavailable or busy */
  isTemporary(error: unknown): boolean;
  /** called for every write that failed */
  onError(error: unknown, count: number): void;
  /** called for a result that the store refuses each time; it is lost */
  onGivenUp(error: unknown, result: T): void;
  /** the pause before a failed write is repeated, ms */
  retryMs?: number;
}

interface Entry<T> {
  key: string;
  result: T;
  stored: () => void;
}

/** Results in one statement: four full batches; a larger statement saves no more. */
const MAX_PER_WRITE = 200;
/** How often the store may refuse a result that is written alone, before it is given up: a deadlock or conflict passes. */
const MAX_REFUSALS = 5;

/** A queue of results of one kind. */
export function createRecordQueue<T>(options: RecordQueueOptions<T>): RecordQueue<T> {
  const { write, isTemporary, onError, onGivenUp, retryMs = 500 } = options;
  const waiting: Entry<T>[] = [];
  const pending = new Map<string, Promise<void>>();
  let writing = false;

  const pause = () => new Promise((resolve) => setTimeout(resolve, retryMs));

  function settle({ key, stored }: Entry<T>): void {
    pending.delete(key);
    stored();
  }

  /** Writes once. Undefined: they are stored; else the error. */
  async function writeOnce(entries: readonly Entry<T>[]): Promise<{ error: unknown } | undefined> {
    try {
      await write(entries.map(({ result }) => result));
      return undefined;
    } catch (error) {
      onError(error, entries.length);
      return { error };
    }
  }

  /** Stores one result alone, or gives it up after the store has refused it several times. */
  async function writeAlone(entry: Entry<T>): Promise<void> {
    for (let refusals = 0; ; ) {
      const failed = await writeOnce([entry]);
      if (!failed) return;
      if (!isTemporary(failed.error)) refusals += 1;
      if (refusals >= MAX_REFUSALS) return onGivenUp(failed.error, entry.result);
      await pause();
    }
  }

  async function drain(): Promise<void> {
    writing = true;
    // results that come in the same tick go together
    await Promise.resolve();
    while (waiting.length > 0) {
      const batch = waiting.slice(0, MAX_PER_WRITE);
      const failed = await writeOnce(batch);
      if (failed && isTemporary(failed.error)) {
        await pause();
        continue;
      }
      waiting.splice(0, batch.length);
      for (const entry of batch) {
        if (failed) await writeAlone(entry);
        settle(entry);
      }
    }
    writing = false;
  }

  return {
    add(key, result) {
      const done = new Promise<void>((stored) => waiting.push({ key, result, stored }));
      pending.set(key, done);
      if (!writing) void drain();
      return done;
    },
    pending: (key) => pending.get(key),
  };
}
