import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { commandOf, isRunning } from '../../../src/runtime/process-handle.ts';
import { freePort, listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { testDatabase } from '../../helpers/servers/postgres.ts';
import { handlesIn, READY, type Started, start, untilGone } from '../../helpers/product/start.ts';
import { testTemporal } from '../../helpers/servers/temporal.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The behaviour of `npm start` in docs/quick-start.md "Start". */
describe('npm start', () => {
  let home: string;
  let dataDir: string;
  let settings: Record<string, string>;
  let url: string;
  let runs: Started[];
  /** keeps running after its test, for the next ones */
  let lasting: Started | undefined;
  let npm: ChildProcessByStdio<null, Readable, Readable> | undefined;
  /** holds a port that the product may not have */
  let taken: Server;

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'start-'));
    // as root, Postgres runs as a user who has to come through
    await chmod(home, 0o711);
    dataDir = join(home, 'data');
    const port = await freePort();
    settings = { PORT: String(port), TEMPORAL_UI_PORT: String(await freePort()) };
    url = `http://127.0.0.1:${port}`;
    runs = [];
    taken = createServer();
    await listenOnFreePort(taken);
  });
  afterEach(async () => {
    // a test that failed may have left one
    const over = runs.filter((run) => run !== lasting);
    for (const run of over) run.child.kill('SIGTERM');
    await Promise.all(over.map((run) => run.ended()));
    runs = lasting ? [lasting] : [];
  });
  afterAll(async () => {
    lasting?.child.kill('SIGTERM');
    await lasting?.ended();
    npm?.kill('SIGKILL');
    taken.close();
    await rm(home, { recursive: true, force: true });
  });

  const begin = (
    more: Record<string, string> = {},
    dir = dataDir,
    script: Parameters<typeof start>[2] = 'dist/start.js',
  ) => {
    const run = start(dir, { ...settings, ...more }, script);
    runs.push(run);
    return run;
  };
  const key = async () => (await readFile(join(dataDir, 'bootstrap-api-key'), 'utf8')).trim();
  const keyNames = async () => {
    const response = await fetch(`${url}/api/v1/api-keys`, { headers: { 'X-API-KEY': await key() } });
    return ((await response.json()) as { data: { name: string }[] }).data.map(({ name }) => name);
  };
  const isReady = () =>
    fetch(`${url}/ready`).then(
      (response) => response.ok,
      () => false,
    );

  it('starts everything in an empty folder and prints the next steps', async () => {
    const run = begin({}, dataDir, 'scripts/start.mjs');
    lasting = run;
    await run.ready(240_000);
    const output = run.output();
    expect(output).toMatch(/^The Email API \d+\.\d+\.\d+ is ready\.$/m);
    expect(output).toContain(`${url}/api/v1`);
    expect(output).toContain(`http://127.0.0.1:${settings['TEMPORAL_UI_PORT']}`);
    expect(output).toContain(await key());
    expect(output).toMatch(new RegExp(`curl -X POST ${url}/api/v1/auth/intent -H "X-API-KEY: ${await key()}"`));
    const docs = /Docs\s+(\S+)/.exec(output)?.[1] ?? '';
    expect((await fetch(docs)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${settings['TEMPORAL_UI_PORT']}`)).status).toBe(200);
    const uiPassword = (await readFile(join(dataDir, 'temporal-ui-password'), 'utf8')).trim();
    const ui = `http://127.0.0.1:${settings['TEMPORAL_UI_PORT']}`;
    expect([await codecStatus(ui, uiPassword), await codecStatus(ui, '')]).toEqual([200, 401]);
    expect(output).not.toContain(uiPassword);
    expect(await isReady()).toBe(true);
    expect(await keyNames()).toHaveLength(1);
    for (const name of [
      'bootstrap-api-key',
      'encryption-key',
      'postgres-password',
      'temporal-ui-password',
      'temporal.db',
    ]) {
      expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600);
    }
    await fetch(`${url}/api/v1/api-keys`, {
      method: 'POST',
      headers: { 'X-API-KEY': await key(), 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'kept' }),
    });
  }, 300_000);

  it('refuses a folder that another start holds', async () => {
    const second = begin({ PORT: String(await freePort()) });
    expect(await second.ended()).toBe(1);
    expect(second.output().trim()).toMatch(/^DATA_DIR \S+ is in use by the start with pid \d+: [^\n]+$/);
    expect(await isReady()).toBe(true);
  }, 60_000);

  it('restarts each process that dies', async () => {
    const run = lasting!;
    const names = {
      worker: 'dist/worker.js',
      server: 'dist/server.js',
      temporal: 'start-dev',
      postgres: 'postgres -D',
    };
    for (const [name, part] of Object.entries(names)) {
      const victim = run.handles().find(({ pid }) => commandOf(pid).includes(part));
      process.kill(victim!.pid, 'SIGKILL');
      await waitFor(() => run.output().includes(`${name} runs again`), { timeoutMs: 20_000, what: run.output });
      const restarted = run.handles().find(({ pid }) => commandOf(pid).includes(part));
      expect(restarted!.pid).not.toBe(victim!.pid);
    }
    await waitFor(isReady, { timeoutMs: 20_000, what: 'the API to have found both servers again' });
  }, 120_000);

  it('stops everything on SIGTERM', async () => {
    const run = lasting!;
    const handles = run.handles();
    expect(handles.filter(isRunning)).toHaveLength(handles.length);
    lasting = undefined;
    run.child.kill('SIGTERM');
    expect(await run.ended()).toBe(0);
    expect(handles.filter(isRunning)).toEqual([]);
  }, 60_000);

  it('restarts with all stored data, no longer shows the key, and leaves no process behind when it is killed', async () => {
    const run = begin();
    await run.ready();
    expect(run.output()).not.toContain(await key());
    expect(await keyNames()).toContain('kept');
    const handles = run.handles();
    run.child.kill('SIGKILL');
    await untilGone(handles, 10_000);
  }, 60_000);

  it('restarts after it was killed, and stops processes that a start killed with its watcher left running', async () => {
    const run = begin();
    await run.ready();
    expect(await keyNames()).toContain('kept');
    const handles = run.handles();
    const watcher = execFileSync('pgrep', ['-P', String(run.child.pid), '-f', 'read -r line'], { encoding: 'utf8' });
    const worker = handles.find(({ pid }) => commandOf(pid).includes('dist/worker.js'))!;
    // a stopped process takes no notice of the end of its parent
    process.kill(worker.pid, 'SIGSTOP');
    process.kill(Number(watcher), 'SIGKILL');
    run.child.kill('SIGKILL');
    await run.ended();

    npm = spawn('npm', ['start'], {
      cwd: projectRoot(),
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], DATA_DIR: dataDir, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await waitFor(() => READY.test(output), { timeoutMs: 60_000, what: () => `npm start:\n${output}` });
    expect(output).toMatch(/^Ending \d+ processes that an earlier start left/m);
    expect(handles.filter(isRunning)).toEqual([]);
    expect(await keyNames()).toContain('kept');
  }, 90_000);

  it('leaves nothing behind when npm is killed', async () => {
    const handles = handlesIn(dataDir);
    expect(handles.filter(isRunning)).toHaveLength(handles.length);
    npm!.kill('SIGKILL');
    await untilGone(handles, 15_000);
    await waitFor(() => !existsSync(join(dataDir, 'lock')), { what: 'the data folder to be unlocked' });
  }, 90_000);

  it('reports in one line why it cannot start, and exits', async () => {
    const inTheWay = join(home, 'a-file');
    await writeFile(inTheWay, '');
    const cases: [Record<string, string>, string, RegExp][] = [
      [
        { PORT: String((taken.address() as AddressInfo).port) },
        join(home, 'other'),
        /^port \d+ on 127.0.0.1 is in use/,
      ],
      [{ HOST: '203.0.113.1' }, join(home, 'other'), /^HOST 203.0.113.1 is not an address of this machine/],
      [{}, inTheWay, /^DATA_DIR \S+ cannot be used/],
      [{ LOG_LEVEL: 'loud' }, join(home, 'other'), /^LOG_LEVEL must be one of/],
      [{ DATABASE_URL: 'postgresql://127.0.0.1:1/x' }, join(home, 'other'), /^ENCRYPTION_KEY is not set/],
    ];
    for (const [more, dir, line] of cases) {
      const run = begin(more, dir);
      expect(await run.ended()).toBe(1);
      const lines = run
        .output()
        .trim()
        .split('\n')
        .filter((text) => !text.startsWith('Building'));
      expect(lines).toHaveLength(1);
      expect(lines[0]).toMatch(line);
    }
  }, 60_000);

  it('embeds nothing if a database and a Temporal are configured', async () => {
    const database = await testDatabase();
    const { address, namespace } = testTemporal();
    const run = begin(
      {
        DATABASE_URL: database.url,
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
        ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
      },
      join(home, 'not-embedded'),
    );
    await run.ready();
    expect(run.handles().map(({ pid }) => /\w+\.js/.exec(commandOf(pid))?.[0])).toEqual(
      expect.arrayContaining(['server.js', 'worker.js']),
    );
    expect(run.handles()).toHaveLength(2);
    expect(run.output()).not.toContain('Temporal UI');
    run.child.kill('SIGINT');
    expect(await run.ended()).toBe(0);
    await database.drop();
  }, 60_000);
});

/** The response of the server that decodes payloads for the UI at `ui`. */
async function codecStatus(ui: string, password: string): Promise<number> {
  const { Codec } = (await (await fetch(`${ui}/api/v1/settings`)).json()) as { Codec: { Endpoint: string } };
  const response = await fetch(`${Codec.Endpoint}/decode`, {
    method: 'POST',
    headers: { Origin: ui, Authorization: `Basic ${btoa(`operator:${password}`)}` },
    body: '{"payloads":[]}',
  });
  return response.status;
}
