/* What tests get as '@jest/globals'; see globals-hook.mjs. */
import { jestExpect } from '@jest/expect';
import { getState } from 'jest-circus';
import { ModuleMocker } from 'jest-mock';

export { afterAll, afterEach, beforeAll, beforeEach, describe, it, test } from 'jest-circus';
export const expect = jestExpect;

const mocker = new ModuleMocker(globalThis);

/** Those functions of `jest` that need no modules of its own. */
export const jest = {
  fn: mocker.fn.bind(mocker),
  spyOn: mocker.spyOn.bind(mocker),
  restoreAllMocks: () => mocker.restoreAllMocks(),
  /** Of the tests and hooks of this file that have no timeout of their own. */
  setTimeout(ms: number): void {
    getState().testTimeout = ms;
  },
};
