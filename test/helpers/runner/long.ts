/** Whether the long form of the suites was requested: `npm run test:long`, `npm run test:crash`. */
export function isLong(): boolean {
  return process.env.TEST_FORM === 'long';
}
