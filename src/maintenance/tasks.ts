import { every } from '../async.ts';
import type { Logger } from '../runtime/logger.ts';

/** Work that the workers repeat for as long as they run. */
export interface Task {
  /** names it in the log, when it fails */
  name: string;
  /** milliseconds between two runs; a run that takes longer is not joined by another one */
  everyMs: number;
  /** `worker`: every worker runs it. `installation`: the leader alone does; see live-workers.ts */
  scope: 'worker' | 'installation';
  run(): Promise<void>;
}

/**
 * Repeats the tasks. A run that fails is logged, and the next one follows at its time. `stop` resolves when the runs under
 * way have ended.
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
