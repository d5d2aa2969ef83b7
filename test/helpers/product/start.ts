import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isRunning, type ProcessHandle } from '../../../src/runtime/process-handle.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { waitFor } from '../assert/wait.ts';

/** A run of `npm start`, without npm. */
export interface Started {
  child: ChildProcess;
  /** its output so far */
  output(): string;
  /** the processes that it runs, as it writes them down */
  handles(): ProcessHandle[];
  /** Waits until it reports that all is ready; fails when it exits before. Returns how long it took, ms. */
  ready(timeoutMs?: number): Promise<number>;
  /** Waits for its exit and returns the exit code. */
  ended(): Promise<number | null>;
}

/** The last line of a successful start, of any version. */
export const READY = /^Ctrl-C (stops|ends) it\.$/m;

/**
 * Starts the product in `dataDir` with `settings` as its only environment settings. `script`: what
 * `npm start` runs, which builds first, or what was built before. `root`: the folder of another version.
 */
export function start(
  dataDir: string,
  settings: Readonly<Record<string, string>>,
  script: 'scripts/start.mjs' | 'dist/start.js',
  root = projectRoot(),
): Started {
  const began = Date.now();
  const child = spawn(process.execPath, [join(root, script)], {
    cwd: root,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], DATA_DIR: dataDir, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    child,
    output: () => output,
    handles: () => handlesIn(dataDir),
    ready: async (timeoutMs = 60_000) => {
      await waitFor(
        () => {
          if (hasEnded()) throw new Error(`the start ended:\n${output}`);
          return READY.test(output);
        },
        { timeoutMs, what: () => `the start to be ready:\n${output}` },
      );
      return Date.now() - began;
    },
    ended: async () => {
      if (!hasEnded()) await once(child, 'exit');
      return child.exitCode;
    },
  };
}

/** The processes that the start on that data folder has written down. */
export function handlesIn(dataDir: string): ProcessHandle[] {
  return JSON.parse(readFileSync(join(dataDir, 'processes.json'), 'utf8')) as ProcessHandle[];
}

/** Waits until all of these processes have exited; returns how long it took, ms. */
export async function untilGone(handles: readonly ProcessHandle[], timeoutMs: number): Promise<number> {
  const began = Date.now();
  await waitFor(() => !handles.some(isRunning), { timeoutMs, what: 'the end of all processes' });
  return Date.now() - began;
}
