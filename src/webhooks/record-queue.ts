/** Writes results as they come: at once when idle, many in one statement while a write is under way. */
export interface RecordQueue<T> {
  /** Resolves when the result is stored. It is tried until it is: a result may not be lost while the process lives. */
  add(key: string, result: T): Promise<void>;
  /** the write of that key's result, if it is still under way */
  pending(key: string): Promise<void> | undefined;
}

export interface RecordQueueOptions<T> {
  write(results: readonly T[]): Promise<void>;
  /** told of every write that failed */
  onError(error: unknown, count: number): void;
  /** before a failed write is tried again, ms */
  retryMs?: number;
}

const MAX_PER_WRITE = 200;

/** A queue of results of one kind; `write` may see a result twice when a write failed without saying so. */
export function createRecordQueue<T>({ write, onError, retryMs = 500 }: RecordQueueOptions<T>): RecordQueue<T> {
  const waiting: { key: string; result: T; done: () => void }[] = [];
  const pending = new Map<string, Promise<void>>();
  let writing = false;

  async function drain(): Promise<void> {
    writing = true;
    // results of the same moment go together
    await Promise.resolve();
    while (waiting.length > 0) {
      const part = waiting.slice(0, MAX_PER_WRITE);
      try {
        await write(part.map(({ result }) => result));
        waiting.splice(0, part.length);
        for (const { key, done } of part) {
          pending.delete(key);
          done();
        }
      } catch (error) {
        onError(error, part.length);
        await new Promise((resolve) => setTimeout(resolve, retryMs));
      }
    }
    writing = false;
  }

  return {
    add(key, result) {
      const stored = new Promise<void>((resolve) => {
        waiting.push({ key, result, done: resolve });
      });
      pending.set(key, stored);
      if (!writing) void drain();
      return stored;
    },
    pending: (key) => pending.get(key),
  };
}
