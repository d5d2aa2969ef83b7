import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { StartFailure } from '../../src/embedded/failure.ts';
import { retryWhenPortTaken } from '../../src/embedded/ports.ts';
import { embedPostgres } from '../../src/embedded/postgres.ts';
import { serverPart } from '../../src/embedded/product-parts.ts';
import { createSupervisor, type Part, type Supervisor } from '../../src/embedded/supervise.ts';
import { embedTemporal } from '../../src/embedded/temporal.ts';
import { freePort, listenOnFreePort } from '../helpers/servers/free-port.ts';
import { testTemporal } from '../helpers/servers/temporal.ts';

/** Another process takes the port between the check that it is free and the start of the server. */
describe('a port that another process takes first', () => {
  let dir: string;
  let supervisor: Supervisor;
  let other: Server;
  let takenPort: number;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'taken-port-'));
    // as root, Postgres runs as a user that must be able to enter
    await chmod(dir, 0o711);
    supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
    other = createServer();
    takenPort = await listenOnFreePort(other);
  });
  afterEach(async () => {
    await supervisor.stop();
    other.close();
    await rm(dir, { recursive: true });
  });

  const KINDS: [string, (port: number) => Promise<Part>][] = [
    ['Postgres', async (port) => (await embedPostgres({ dir, port, printLine: () => {} })).part],
    ['Temporal', async (port) => embedTemporal({ binary: testTemporal().binary, port }).part],
  ];

  it.each(KINDS)(
    'has %s started on another one',
    async (_name, partAt) => {
      const ports = [takenPort, await freePort()];
      const port = await retryWhenPortTaken(async () => {
        const next = ports.shift() as number;
        await supervisor.start(await partAt(next));
        return next;
      });
      expect(ports).toEqual([]);
      expect(port).not.toBe(takenPort);
      expect(supervisor.handles()).toHaveLength(1);
    },
    60_000,
  );

  it('has no Temporal believed ready where another one serves the port', async () => {
    const { binary } = testTemporal();
    const other = createSupervisor({ logDir: join(dir, 'other'), printLine: () => {} });
    const port = await freePort();
    try {
      const theirs = embedTemporal({ binary, port, dbFile: join(dir, 'theirs.db') }).part;
      await other.start(theirs);
      const ours = embedTemporal({ binary, port, dbFile: join(dir, 'ours.db') }).part;
      // it was ready before its own process had found the port taken
      expect([await theirs.isReady(undefined), await ours.isReady(undefined)]).toEqual([true, false]);
      const started: number[] = [];
      await retryWhenPortTaken(async () => {
        started.push(started.length === 0 ? port : await freePort());
        await supervisor.start(
          embedTemporal({ binary, port: started.at(-1) as number, dbFile: join(dir, 'ours.db') }).part,
        );
      });
      expect(started).toHaveLength(2);
    } finally {
      await other.stop();
    }
  }, 120_000);

  it('has no API believed ready where another program serves its URL', async () => {
    const answering = createHttpServer((_request, response) => response.end('ok'));
    const port = await listenOnFreePort(answering);
    try {
      const part = serverPart(
        '/nowhere',
        { env: {}, settings: Promise.resolve({}) },
        async () => `http://127.0.0.1:${port}`,
      );
      expect([await part.isReady(undefined), await part.isReady('ready')]).toEqual([false, true]);
    } finally {
      answering.close();
    }
  });

  it('is the only failure that is retried', async () => {
    let starts = 0;
    const start = () => {
      starts += 1;
      return Promise.reject(new StartFailure('postgres exited: FATAL: no disk'));
    };
    await expect(retryWhenPortTaken(start)).rejects.toThrow('no disk');
    expect(starts).toBe(1);
  });
});
