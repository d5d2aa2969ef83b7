/** How the waits between the attempts of a workflow grow. */
export interface Backoff {
  /** after the first failure, ms */
  firstMs: number;
  /** by how much each wait is longer than the one before; left out: 2 */
  factor?: number;
  longestMs: number;
}

/**
 * Milliseconds to wait after so many failures in a row, 1 for the first. Jittered by a fifth, so that mailboxes that failed at
 * one moment do not all come back at one moment.
 */
export function waitAfter(failures: number, { firstMs, factor = 2, longestMs }: Backoff): number {
  const waitMs = Math.min(firstMs * factor ** (failures - 1), longestMs);
  return waitMs * (0.8 + 0.4 * Math.random());
}
