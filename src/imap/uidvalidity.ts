/** The UIDVALIDITY of a folder for which the server reports none, although RFC 3501 2.3.1.1 requires it. */
export const NO_UIDVALIDITY = 0;

/** The UIDVALIDITY of a folder, as imapflow read it; NO_UIDVALIDITY where the server reports none. */
export function uidValidityOf({ uidValidity }: { uidValidity?: bigint | number }): number {
  return Number(uidValidity ?? NO_UIDVALIDITY);
}

/**
 * Whether UIDs under UIDVALIDITY `now` may be stored in a folder whose UIDVALIDITY is `stored`: null for a folder that was
 * never opened. Otherwise the stored UIDs must be mapped first.
 */
export function fitsUidValidity(stored: number | null, now: number): boolean {
  return stored === null || stored === NO_UIDVALIDITY || stored === now;
}
