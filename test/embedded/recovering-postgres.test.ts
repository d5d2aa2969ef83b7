import { readFileSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { clusterOf, embedPostgres } from '../../src/embedded/postgres.ts';
import { createSupervisor } from '../../src/embedded/supervise.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { freePort } from '../helpers/servers/free-port.ts';

it('a Postgres that recovers is busy until it is ready', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'recovering-postgres-'));
  // as root, Postgres runs as a user that must be able to enter
  await chmod(dir, 0o711);
  const options = { dir, port: await freePort(), printLine: () => {} };
  const supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
  try {
    // a standby without readers recovers, and says so, until it is promoted
    const { part } = await embedPostgres({ ...options, settings: { hot_standby: 'off' } });
    const { path, runAs } = await clusterOf(options);
    const file = async (name: string) => {
      await writeFile(join(path, name), '');
      if (runAs !== undefined) await chown(join(path, name), runAs.uid, runAs.gid);
    };
    await file('standby.signal');
    let isBusy = false;
    const isReady = async () => {
      const ready = await part.isReady(undefined);
      isBusy ||= ready === 'busy';
      return ready;
    };
    const started = supervisor.start({ ...part, isReady }).then(() => 'ready');
    await waitFor(() => isBusy, { timeoutMs: 30_000, what: 'Postgres to say that it recovers' });
    await file('promote');
    process.kill(Number(readFileSync(join(path, 'postmaster.pid'), 'utf8').split('\n', 1)[0]), 'SIGUSR1');
    expect(await started).toBe('ready');
  } finally {
    await supervisor.stop();
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}, 60_000);
