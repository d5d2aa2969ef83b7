/** Stands for the UIDVALIDITY of a folder of which the server says none (RFC 3501 2.3.1.1 has it say one). */
export const NO_UIDVALIDITY = 0;

/** The UIDVALIDITY of a folder, as imapflow has read it; NO_UIDVALIDITY where the server says none. */
export function uidValidityOf({ uidValidity }: { uidValidity?: bigint | number }): number {
  return Number(uidValidity ?? NO_UIDVALIDITY);
}

/**
 * Whether UIDs that a server gives under UIDVALIDITY `now` may be stored in a folder whose stored one is given: null is
 * that of a folder that was never opened. Under any other the UIDs that are stored must be mapped first.
 */
export function fitsUidValidity(stored: number | null, now: number): boolean {
  return stored === null || stored === NO_UIDVALIDITY || stored === now;
}
