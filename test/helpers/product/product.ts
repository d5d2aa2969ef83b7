import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AT_START } from '../../../src/embedded/product-parts.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { Api } from './api.ts';
import { builtEntry } from './built.ts';
import { freePort } from '../servers/free-port.ts';
import { testDatabase, type TestDatabase } from '../servers/postgres.ts';
import { type TestTemporal, testTemporal } from '../servers/temporal.ts';
import { waitFor } from '../assert/wait.ts';

/** The product as an operator runs it: an API process and a worker process on a separate database. */
export interface Product {
  api: Api;
  database: TestDatabase;
  temporal: TestTemporal;
  /** DATA_DIR of both processes */
  dataDir: string;
  /** the ids of both processes */
  pids(): number[];
  /** output of both processes so far */
  logs(): Promise<string>;
  /** Kills the API process, and starts another one on its port; returns when that is ready. */
  restartServer(): Promise<void>;
  /** Kills the worker, by SIGKILL unless another signal is given; returns when it has exited. */
  killWorker(signal?: NodeJS.Signals): Promise<void>;
  startWorker(): void;
  /** Starts a further worker beside it; returns what kills that one. */
  addWorker(): (signal?: NodeJS.Signals) => Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts server and worker, as they were built, with settings for tests: loopback without TLS allowed, webhooks retried soon.
 * Returns when the API reports that it is ready, and the worker accepts work.
 */
export async function startProduct(settings: Record<string, string> = {}): Promise<Product> {
  const database = await testDatabase({ max: 2 });
  const temporal = testTemporal();
  const dir = await mkdtemp(join(tmpdir(), 'product-'));
  const port = await freePort();
  const key = `test-${randomBytes(24).toString('hex')}`;
  const env = {
    ...process.env,
    ...AT_START,
    NODE_ENV: 'production',
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    DATA_DIR: dir,
    PORT: String(port),
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    BOOTSTRAP_API_KEY: key,
    OUTBOUND_ALLOW: '127.0.0.0/8',
    ALLOW_INSECURE_MAIL: 'loopback',
    WEBHOOK_RETRY_SCHEDULE: '300ms,1s,2s,5s,10s',
    ...settings,
  };
  const logFile = join(dir, 'log');
  const log = createWriteStream(logFile, { flags: 'a' });
  const start = (name: 'server' | 'worker'): ChildProcess => {
    const child = spawn(process.execPath, [builtEntry(name)], {
      env,
      cwd: projectRoot(),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    return child;
  };

  let server = start('server');
  let worker = start('worker');
  const added: ChildProcess[] = [];
  let isWorking = false;
  // without a worker, writes are 503
  worker.once('message', () => (isWorking = true));
  const api = new Api(`http://127.0.0.1:${port}`, key);
  const product: Product = {
    api,
    database,
    temporal,
    dataDir: dir,
    pids: () => [server, worker].flatMap(({ pid }) => pid ?? []),
    logs: () => readFile(logFile, 'utf8'),
    restartServer: async () => {
      await end(server, 'SIGKILL');
      server = start('server');
      await waitFor(() => isReady(api), { timeoutMs: 60_000, everyMs: 50, what: 'the API to be ready again' });
    },
    killWorker: (signal = 'SIGKILL') => end(worker, signal),
    startWorker: () => {
      worker = start('worker');
    },
    addWorker: () => {
      const further = start('worker');
      added.push(further);
      return (signal = 'SIGKILL') => end(further, signal);
    },
    stop: async () => {
      await Promise.all([...added, worker, server].map((child) => end(child, 'SIGTERM')));
      log.end();
      await database.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
  try {
    await waitFor(
      () => {
        if (server.exitCode !== null || worker.exitCode !== null) throw new Error('a process ended at its start');
        return isReady(api).then((ready) => ready && isWorking);
      },
      { timeoutMs: 110_000, everyMs: 100, what: 'the API to be ready' },
    );
  } catch (error) {
    const printed = await product.logs();
    await product.stop();
    throw new Error(`${String(error)}\n${printed.slice(-4000)}`, { cause: error });
  }
  return product;
}

const isReady = ({ base }: Api): Promise<boolean> =>
  fetch(`${base}/ready`).then(
    ({ ok }) => ok,
    () => false,
  );

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await gone;
  clearTimeout(timer);
}
