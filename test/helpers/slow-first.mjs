import Sequencer from '@jest/test-sequencer';

/** What waits for servers begins first: where no earlier run has left times, jest would go by the size of files. */
// jest loads a class by its default export
export default class SlowFirst extends Sequencer {
  sort(tests) {
    return [...super.sort(tests)].sort((a, b) => rank(a) - rank(b));
  }
}

function rank({ path, duration }) {
  if (duration !== undefined) return -duration;
  return /\/test\/live\//.test(path) ? -20_000 : /\/test\/workflows\//.test(path) ? -10_000 : 0;
}
