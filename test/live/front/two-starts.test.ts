import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from '@jest/globals';
import { commandOf, isRunning } from '../../../src/runtime/process-handle.ts';
import { type Started, start } from '../../helpers/product/start.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

let dirs: string[] = [];
let runs: Started[] = [];
afterEach(async () => {
  for (const run of runs) run.child.kill('SIGTERM');
  await Promise.all(runs.map((run) => run.ended()));
  await Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true })));
  [dirs, runs] = [[], []];
});

/** The port of the Temporal that a start runs. */
function temporalPort(run: Started): string | undefined {
  const command = run.handles().flatMap((handle) => (isRunning(handle) ? [commandOf(handle.pid)] : []));
  return command.flatMap((line) => /start-dev.* --port\s(\d+)/.exec(line.replaceAll('\0', ' '))?.[1] ?? [])[0];
}

it.each([1, 2, 3])(
  'two starts at one moment have a Temporal each (%d)',
  async () => {
    for (let i = 0; i < 2; i++) {
      const dir = await mkdtemp(join(tmpdir(), 'two-starts-'));
      // as root, Postgres runs as a user that must be able to enter
      await chmod(dir, 0o711);
      dirs.push(dir);
    }
    const ports = [await freePort(), await freePort()];
    runs = dirs.map((dir, index) => start(dir, { PORT: String(ports[index]) }, 'dist/start.js'));
    await Promise.all(runs.map((run) => run.ready(120_000)));
    const temporals = runs.map(temporalPort);
    expect(temporals.every((port) => port !== undefined)).toBe(true);
    expect(new Set(temporals).size).toBe(2);
    expect(runs.map((run) => run.output()).join('')).not.toMatch(/restarting it/);
  },
  180_000,
);
