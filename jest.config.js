/** Run by `npm test` (scripts/test.mjs), which starts Postgres, Temporal and the mail servers first. */
export default {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // a built or stored copy of the tree must not count as sources
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/\\.data/'],
  // loads what the tests import once for each worker, not once for each file
  runner: '<rootDir>/test/helpers/runner/runner.mjs',
  transform: {},
  watchman: false,
  // the slow files wait for servers most of the time: two cores have room for four of them
  maxWorkers: 4,
  testSequencer: '<rootDir>/test/helpers/runner/slow-first.mjs',
  testTimeout: 30_000,
};
