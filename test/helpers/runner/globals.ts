/* Replaces '@jest/globals' in tests; see globals-hook.mjs. */
import { jestExpect } from '@jest/expect';
import { getState } from 'jest-circus';
import { ModuleMocker } from 'jest-mock';

export { afterAll, afterEach, beforeAll, beforeEach, describe, it, test } from 'jest-circus';
export const expect = jestExpect;

const mocker = new ModuleMocker(globalThis);

/** The functions of `jest` that do not need its module system. */
export const jest = {
  fn: mocker.fn.bind(mocker),
  spyOn: mocker.spyOn.bind(mocker),
  restoreAllMocks: () => mocker.restoreAllMocks(),
  /** Sets the default timeout of the tests and hooks in this file. */
  setTimeout(ms: number): void {
    getState().testTimeout = ms;
  },
};
