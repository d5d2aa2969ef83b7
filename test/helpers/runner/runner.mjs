import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const ENTRY = join(import.meta.dirname, 'process.mjs');
const STOP_MS = 2_000;

/** Files that measure time: each runs alone, after all others. */
const MEASURING = [
  'imap/floods',
  'live/failures/floods',
  'live/failures/outage',
  'live/failures/send-failures',
  'live/failures/silent-connects',
  'live/front/reference',
  'mime/parser',
  'runtime/logger',
].map((name) => `/test/${name}.test.ts`);

/**
 * The runner of jest: as many processes as it has workers, each runs test files in sequence. Modules that the files of
 * a process import are loaded once; jest's own runner loads them again for each file.
 */
// jest loads a class by its default export
export default class Runner {
  #config;

  constructor(globalConfig) {
    this.#config = globalConfig;
  }

  async runTests(tests, watcher, onStart, onResult, onFailure) {
    const measures = ({ path }) => MEASURING.some((end) => path.endsWith(end));
    const run = (some, workers) => this.#run(some, workers, watcher, { onStart, onResult, onFailure });
    await run(
      tests.filter((test) => !measures(test)),
      this.#config.maxWorkers,
    );
    await run(tests.filter(measures), 1);
  }

  async #run(tests, workers, watcher, { onStart, onResult, onFailure }) {
    const waiting = [...tests];
    const work = async () => {
      let tester;
      for (let test = waiting.shift(); test !== undefined && !watcher.isInterrupted(); test = waiting.shift()) {
        tester ??= startProcess(this.#config, test.context.config);
        await onStart(test);
        const { result, error } = await tester.run(test.path);
        if (result !== undefined) await onResult(test, result);
        else await onFailure(test, error);
        // a test that failed may have left something open, which fails the next file
        if (result === undefined || result.numFailingTests > 0 || result.testExecError) await tester.stop();
        if (tester.hasEnded()) tester = undefined;
      }
      await tester?.stop();
    };
    await Promise.all(Array.from({ length: workers }, work));
  }
}

function startProcess(globalConfig, projectConfig) {
  // standard output belongs to jest: its results
  const child = fork(ENTRY, [], {
    stdio: ['ignore', 2, 2, 'ipc'],
    serialization: 'advanced',
    execArgv: ['--no-warnings'],
  });
  const exit = once(child, 'exit');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null || !child.connected;
  return {
    hasEnded,
    /** Never rejects: a process that dies has failed the file that it ran. */
    async run(path) {
      const done = new AbortController();
      const { signal } = done;
      child.send({ path, globalConfig, projectConfig });
      const answer = once(child, 'message', { signal }).then(([message]) => message);
      const death = once(child, 'exit', { signal }).then(([code, killedBy]) => ({
        error: failure(`The process that ran this file ended: ${killedBy ?? `exit code ${code}`}`),
      }));
      return Promise.race([answer, death]).finally(() => {
        done.abort();
        for (const one of [answer, death]) one.catch(() => {});
      });
    },
    async stop() {
      if (hasEnded()) return;
      child.disconnect();
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await exit;
      clearTimeout(timer);
    },
  };
}

function failure(message) {
  return { message, stack: message };
}
