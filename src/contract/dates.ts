/** Range of years that ISO 8601 writes with four digits and Postgres reads. */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z');
const LAST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Reads a valid RFC 3339 date. A leap second becomes the end of its minute; dates are clamped to the years 1 to 9999.
 */
export function readDate(text: string): Date {
  const time = Date.parse(text.replace(/(T\d\d:\d\d:)60(\.\d+)?/i, '$159.999'));
  return new Date(Math.min(Math.max(time, FIRST), LAST));
}

/** Reads an optional RFC 3339 date; see `readDate`. */
export function readOptionalDate(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : readDate(text);
}
