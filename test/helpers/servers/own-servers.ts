import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { handleOf } from '../../../src/runtime/process-handle.ts';
import { embedPostgres } from '../../../src/embedded/postgres.ts';
import { createSupervisor, type Part } from '../../../src/embedded/supervise.ts';
import { embedTemporal } from '../../../src/embedded/temporal.ts';
import { freePort } from './free-port.ts';
import { testTemporal } from './temporal.ts';

/** A server that belongs to one test: it may be frozen and killed. */
export interface OwnServer {
  /** SIGSTOP to it and its children: connections are taken by the kernel, and nothing answers. */
  freeze(): void;
  thaw(): void;
  /** SIGKILL; it stays away until `start`. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export interface OwnServers {
  dir: string;
  databaseUrl: string;
  temporalAddress: string;
  postgres: OwnServer;
  temporal: OwnServer;
  stop(): Promise<void>;
}

/** Postgres and Temporal, with their data on disk. `settings`: further ones of Postgres. */
export async function ownServers(settings: Record<string, string> = {}): Promise<OwnServers> {
  const dir = await mkdtemp(join(tmpdir(), 'own-servers-'));
  // as root, Postgres runs as a user who has to come through
  await chmod(dir, 0o711);
  const logDir = join(dir, 'logs');
  await mkdir(logDir);
  const port = await freePort();
  const { url, part } = await embedPostgres({ dir, port, settings, printLine: () => {} });
  const temporal = embedTemporal({
    binary: testTemporal().binary,
    dbFile: join(dir, 'temporal.db'),
    port: await freePort(),
  });
  const servers = { postgres: ownServer(logDir, part), temporal: ownServer(logDir, temporal.part) };
  await Promise.all([servers.postgres.start(), servers.temporal.start()]);
  return {
    dir,
    databaseUrl: url,
    temporalAddress: temporal.address,
    ...servers,
    stop: async () => {
      await Promise.all([servers.postgres.kill(), servers.temporal.kill()]);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function ownServer(logDir: string, part: Part): OwnServer {
  let pid = 0;
  let stop = async () => {};
  const signalAll = (signal: NodeJS.Signals) => {
    for (const one of [pid, ...childrenOf(pid)]) process.kill(one, signal);
  };
  return {
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT'),
    kill: async () => {
      if (pid === 0) return;
      const all = [pid, ...childrenOf(pid)];
      pid = 0;
      const stopping = stop();
      for (const one of all) {
        if (handleOf(one) !== undefined) process.kill(one, 'SIGKILL');
      }
      await stopping;
    },
    start: async () => {
      const supervisor = createSupervisor({ logDir, printLine: () => {} });
      stop = () => supervisor.stop();
      await supervisor.start(part);
      pid = supervisor.handles()[0]?.pid ?? 0;
    },
  };
}

function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
      } catch {
        return false;
      }
    });
}
