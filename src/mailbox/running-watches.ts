/** The watches that run in this process. */
export interface RunningWatches {
  count(): number;
  /** @param end ends the watch in good order; returns what to call once it has ended */
  add(end: () => void): () => void;
  /** Ends those that have run the longest. */
  end(count: number): void;
}

/** No watch runs yet. */
export function createRunningWatches(): RunningWatches {
  const running = new Set<() => void>();
  return {
    count: () => running.size,
    add(end) {
      const own = () => end();
      running.add(own);
      return () => void running.delete(own);
    },
    end(count) {
      for (const end of [...running].slice(0, count)) end();
    },
  };
}
