import { causesOf } from '../../outage.ts';

/** SQLSTATE classes 22, data exceptions such as a character that text cannot have, and 54, such as an index entry that is too long. */
const REFUSED = /^(22|54)/;

/** Whether Postgres refuses the values of a statement: repeated, it fails again. */
export function isRefusedData(error: unknown): boolean {
  for (const at of causesOf(error)) {
    const { code } = at as { code?: unknown };
    if (typeof code === 'string' && code.length === 5 && REFUSED.test(code)) return true;
  }
  return false;
}
