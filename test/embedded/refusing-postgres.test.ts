import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { loadStartConfig } from '../../src/config/config.ts';
import { clusterOf, embedPostgres } from '../../src/embedded/postgres.ts';
import type { Report } from '../../src/embedded/report.ts';
import { startPostgres } from '../../src/embedded/servers.ts';
import { createSupervisor, type Supervisor } from '../../src/embedded/supervise.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { freePort } from '../helpers/servers/free-port.ts';

describe('an embedded Postgres that does not start', () => {
  let dir: string;
  let supervisors: Supervisor[];
  let details: string[];
  const supervisor = () => {
    const made = createSupervisor({ logDir: dir, printLine: () => {} });
    supervisors.push(made);
    return made;
  };
  const report: Report = { line: () => {}, during: (_what, work) => work((detail) => void details.push(detail)) };
  const start = () => startPostgres({ settings: loadStartConfig({ DATA_DIR: dir }), supervisor: supervisor(), report });
  const embed = async () => (await embedPostgres({ dir, port: await freePort(), printLine: () => {} })).part;
  const stop = async () => {
    for (const each of supervisors.splice(0)) await each.stop();
  };

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'refusing-postgres-'));
    // as root, Postgres runs as a user that must be able to enter
    await chmod(dir, 0o711);
    [supervisors, details] = [[], []];
  });
  afterEach(async () => {
    await stop();
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  });

  it('is started once nothing of a killed one uses its files any longer', async () => {
    const first = supervisor();
    const settings = loadStartConfig({ DATA_DIR: dir });
    const client = new pg.Client({ connectionString: await startPostgres({ settings, supervisor: first, report }) });
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    // it computes on after the end of the main process
    const computing = client.query('SELECT count(*) FROM generate_series(1, 1000000000000)').catch(() => {});
    const { path } = await clusterOf({ dir, printLine: () => {} });
    const main = Number(readFileSync(join(path, 'postmaster.pid'), 'utf8').split('\n', 1)[0]);
    const stopped = first.stop();
    // as after `stopMs`
    process.kill(main, 'SIGKILL');
    await stopped;
    const started = start();
    try {
      await Promise.race([started, waitFor(() => details.length > 1, { timeoutMs: 30_000, what: 'two attempts' })]);
    } finally {
      process.kill(rows[0]!.pid, 'SIGKILL');
      await Promise.allSettled([computing, client.end()]);
    }
    expect(new Set(details)).toEqual(new Set(['waiting until the earlier Postgres has written everything']));
    expect(await started).toMatch(/^postgresql:/);
  }, 90_000);

  it('says at once that its password is another one', async () => {
    await start();
    await stop();
    await writeFile(join(dir, 'postgres-password'), 'another\n');
    await expect(start()).rejects.toThrow(
      `${join(dir, 'postgres-password')} does not hold the password of the database in ${join(dir, 'postgres')}: put back the one that does.`,
    );
  }, 60_000);

  it('says why it was last refused when it does not become ready in time', async () => {
    const url = await start();
    const client = new pg.Client({ connectionString: url.replace(/[^/]+$/, 'postgres') });
    await client.connect();
    await client.query('ALTER DATABASE mailbox ALLOW_CONNECTIONS false');
    await client.end();
    await stop();
    await expect(supervisor().start({ ...(await embed()), readyMs: 5000 })).rejects.toThrow(
      /^postgres was not ready after 5 s: database "mailbox" is not currently accepting connections \(log: /,
    );
  }, 60_000);
});
