/** Counts by source in windows of time, in the memory of this process. */
export interface Windows {
  /** the count of the present window */
  countOf(source: string): number;
  /** Adds to the present window, not below 0, or begins one; returns its count. */
  add(source: string, count: 1 | -1): number;
  /** Seconds until the present window ends, or one that began now; at least 1. */
  resetS(source: string): number;
}

/** Creates windows of this length in ms, of at most so many sources: the oldest are evicted first. */
export function createWindows(windowMs: number, remembered: number): Windows {
  const windows = new Map<string, { endsAt: number; count: number }>();
  const windowOf = (source: string) => {
    const window = windows.get(source);
    return window && window.endsAt > performance.now() ? window : undefined;
  };
  return {
    countOf: (source) => windowOf(source)?.count ?? 0,
    add(source, count) {
      const window = windowOf(source);
      if (window) return (window.count = Math.max(0, window.count + count));
      if (count < 0) return 0;
      remember(windows, source, { endsAt: performance.now() + windowMs, count }, remembered);
      return count;
    },
    resetS(source) {
      const endsAt = windowOf(source)?.endsAt ?? performance.now() + windowMs;
      return Math.max(1, Math.ceil((endsAt - performance.now()) / 1000));
    },
  };
}

/** Sets an entry of a map that keeps at most so many: the oldest is evicted. */
export function remember<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (map.size >= most && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}
