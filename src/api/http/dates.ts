/** Years that ISO 8601 writes with four digits and Postgres reads. */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z');
const LAST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * The moment that a valid RFC 3339 text names. A leap second counts as the end of its minute, and a date outside
 * the years 1 to 9999 as their beginning or end.
 */
export function readDate(text: string): Date {
  const time = Date.parse(text.replace(/(T\d\d:\d\d:)60(\.\d+)?/i, '$159.999'));
  return new Date(Math.min(Math.max(time, FIRST), LAST));
}

/** The same for a date that may be left out. */
export function readOptionalDate(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : readDate(text);
}
