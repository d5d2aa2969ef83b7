import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRunning } from '../../src/runtime/process-handle.ts';
import { Api } from '../helpers/product/api.ts';
import { builtEntry } from '../helpers/product/built.ts';
import { start, untilGone } from '../helpers/product/start.ts';
import { freePort } from '../helpers/servers/free-port.ts';

/** `npm start` on a Postgres of the tests. */
export interface Installation {
  api: Api;
  /** Kills all processes at once. */
  kill(): Promise<void>;
}

/** Starts the built product; returns when it is ready. */
export async function beginInstallation(dataDir: string, databaseUrl: string): Promise<Installation> {
  const port = await freePort();
  const settings = {
    DATABASE_URL: databaseUrl,
    PORT: String(port),
    TEMPORAL_UI_PORT: String(await freePort()),
    WORKER_METRICS_PORT: '0',
    OUTBOUND_ALLOW: '127.0.0.0/8',
    ALLOW_INSECURE_MAIL: 'loopback',
    WEBHOOK_RETRY_SCHEDULE: `1s${',5s'.repeat(25)}`,
  };
  const started = start(dataDir, settings, 'dist/start.js', join(builtEntry('start'), '..', '..'));
  const kill = async () => {
    const handles = started.handles().filter(isRunning);
    // first the one that would start the others again
    started.child.kill('SIGKILL');
    for (const { pid } of handles) process.kill(pid, 'SIGKILL');
    await untilGone(handles, 10_000);
  };
  await started.ready(120_000).catch(async (error: unknown) => {
    started.child.kill('SIGTERM');
    await started.ended();
    throw error;
  });
  const apiKey = (await readFile(join(dataDir, 'bootstrap-api-key'), 'utf8')).trim();
  return { api: new Api(`http://127.0.0.1:${port}`, apiKey), kill };
}
