import { every } from '../async.ts';
import type { Logger } from '../runtime/logger.ts';

/** Work that the workers repeat for as long as they run. */
export interface Task {
  /** its name in the log when it fails */
  name: string;
  /** milliseconds between two runs; a run that takes longer is not overlapped by another */
  everyMs: number;
  /** `worker`: every worker runs it. `installation`: the leader alone does; see live-workers.ts */
  scope: 'worker' | 'installation';
  run(): Promise<void>;
}

/**
 * Repeats the tasks. Failures are logged, and the next run follows on schedule. `stop` resolves when current runs have
 * ended.
 */
export function startTasks(tasks: Task[], leads: () => boolean, logger: Logger): { stop(): Promise<void> } {
  const started = tasks.map(({ name, everyMs, scope, run }) =>
    every(everyMs, async () => (scope === 'worker' || leads() ? run() : undefined), logger.child({ task: name })),
  );
  return {
    async stop() {
      await Promise.all(started.map((task) => task.stop()));
    },
  };
}
