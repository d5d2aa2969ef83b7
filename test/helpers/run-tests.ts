import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { StartFailure } from '../../src/embedded/failure.ts';
import { firstFreePort } from '../../src/embedded/ports.ts';
import { embedPostgres } from '../../src/embedded/postgres.ts';
import { projectRoot } from '../../src/embedded/project-root.ts';
import { createReport, type Report } from '../../src/embedded/report.ts';
import { isRunning, handleOf, type ProcessHandle } from '../../src/process-handle.ts';
import { createSupervisor, type Supervisor } from '../../src/embedded/supervise.ts';
import { embedTemporal } from '../../src/embedded/temporal.ts';
import { findTemporal } from '../../src/embedded/temporal-binary.ts';
import { MailServersMissing } from './mail-packages.ts';
import { startMailServers } from './mail-servers.ts';
import { NAMESPACES } from './temporal.ts';

const ROOT = projectRoot();
const JEST = ['--experimental-vm-modules', '--no-warnings', join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js')];
const HELPERS = { postgres: 'postgres.ts', temporal: 'temporal.ts', mail: 'mail-servers.ts' } as const;
const PREFIX = 'email-mailbox-api-test-';
const LINGER_S = 20;
type Server = keyof typeof HELPERS;

/** Everything that this run brought up. */
interface Servers {
  env: Record<string, string>;
  /** test files that cannot run here */
  left: string[];
  stop(): Promise<void>;
}

/**
 * Starts the servers that the chosen tests import helpers of, runs jest with `args`, ends everything.
 * Prints the counts as the last line and answers the exit code.
 */
export async function runTests(args: string[]): Promise<number> {
  const report = createReport(process.stderr);
  await removeOldRuns();
  const dir = await mkdtemp(join(tmpdir(), PREFIX));
  await writeFile(join(dir, 'owner'), JSON.stringify(handleOf(process.pid)));
  // Postgres runs as a user of its own when this is root
  await chmod(dir, 0o711);
  const supervisor = createSupervisor({ logDir: join(dir, 'logs'), printLine: (line) => report.line(line) });
  let servers: Servers | undefined;
  let jest: ChildProcess | undefined;
  const interrupt = (): void => {
    if (jest === undefined) void supervisor.stop().then(() => process.exit(130));
    else jest.kill('SIGTERM');
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt).on('SIGHUP', interrupt);
  try {
    const files = listTests(args);
    servers = await startServers(dir, files, supervisor, report);
    const results: string[] = [];
    for (const pass of passesOf(files)) {
      const file = join(dir, `results-${results.length}.json`);
      results.push(file);
      const ignore = ['--testPathIgnorePatterns', ...servers.left.map(escapeRegExp), ...pass.ignore];
      const output = ['--json', `--outputFile=${file}`, '--passWithNoTests'];
      jest = spawn(
        process.execPath,
        [...JEST, ...args, ...(ignore.length > 1 ? ignore : []), ...pass.args, ...output],
        {
          cwd: ROOT,
          // --json prints on standard output too
          stdio: ['inherit', 'ignore', 'inherit'],
          env: { ...process.env, ...servers.env, NODE_ENV: 'test', TEST_DIR: dir },
        },
      );
      await endOf(jest, file, report);
      if (jest.signalCode === 'SIGTERM') break;
    }
    jest = undefined;
    await servers.stop();
    return await conclude(results, servers.left);
  } catch (error) {
    await (servers?.stop() ?? supervisor.stop());
    if (!(error instanceof StartFailure)) throw error;
    report.line(error.message);
    return 1;
  } finally {
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** These measure time, or the CPU of a process: they run after all others, one at a time. */
const TIMED = ['test/live/start.test.ts', 'test/mime/parser.test.ts'];

/** How jest is called, once for each kind of tests that were asked for. */
function passesOf(files: string[]): { args: string[]; ignore: string[] }[] {
  const timed = files.filter((file) => TIMED.includes(relative(ROOT, file)));
  const names = TIMED.map(escapeRegExp);
  return [
    ...(timed.length < files.length ? [{ args: [], ignore: names.map((name) => `${name}$`) }] : []),
    ...(timed.length > 0 ? [{ args: ['--runInBand'], ignore: [`^(?!.*(${names.join('|')})$)`] }] : []),
  ];
}

/** A test that leaves a socket or a timer behind keeps jest from ending once it has written its results. */
async function endOf(jest: ChildProcess, results: string, report: Report): Promise<void> {
  let seconds = 0;
  const watch = setInterval(() => {
    if (!existsSync(results) || ++seconds < LINGER_S) return;
    clearInterval(watch);
    report.line('A test left something open: jest is ended.');
    jest.kill('SIGKILL');
  }, 1000);
  await once(jest, 'exit');
  clearInterval(watch);
}

/** What a run that was killed could not remove itself. */
async function removeOldRuns(): Promise<void> {
  for (const name of (await readdir(tmpdir())).filter((entry) => entry.startsWith(PREFIX))) {
    const dir = join(tmpdir(), name);
    const owner = await readFile(join(dir, 'owner'), 'utf8').then(
      (text) => JSON.parse(text) as ProcessHandle,
      () => undefined,
    );
    if (owner !== undefined && !isRunning(owner)) await rm(dir, { recursive: true, force: true }).catch(() => {});
  }
}

/** The last line of every run: what a machine reads. A file that could not even be loaded is one failure. */
async function conclude(results: string[], left: string[]): Promise<number> {
  let [passed, failed, skipped] = [0, 0, 0];
  for (const file of results) {
    const counts = await readFile(file, 'utf8').then(
      (text) => JSON.parse(text) as Counts,
      () => undefined,
    );
    passed += counts?.numPassedTests ?? 0;
    failed += (counts?.numFailedTests ?? 0) + (counts?.numRuntimeErrorTestSuites ?? 1);
    skipped += (counts?.numPendingTests ?? 0) + (counts?.numTodoTests ?? 0);
  }
  if (left.length > 0) process.stderr.write(`${left.length} test files were left out; see above.\n`);
  process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  return failed > 0 || passed === 0 ? 1 : 0;
}

interface Counts {
  numPassedTests: number;
  numFailedTests: number;
  numRuntimeErrorTestSuites: number;
  numPendingTests: number;
  numTodoTests: number;
}

function listTests(args: string[]): string[] {
  const output = execFileSync(process.execPath, [...JEST, ...args, '--listTests', '--passWithNoTests'], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return output.split('\n').filter((line) => line.endsWith('.ts'));
}

async function startServers(dir: string, files: string[], supervisor: Supervisor, report: Report): Promise<Servers> {
  const users = (server: Server) =>
    files.filter((file) => imports(file, join(ROOT, 'test', 'helpers', HELPERS[server])));
  const env: Record<string, string> = {};
  const mail = users('mail').length === 0 ? undefined : await mailServers(dir, report);
  try {
    await Promise.all([
      users('postgres').length > 0 && startPostgres(dir, supervisor, report).then((more) => Object.assign(env, more)),
      users('temporal').length > 0 && startTemporal(dir, supervisor, report).then((more) => Object.assign(env, more)),
    ]);
  } catch (error) {
    await mail?.stop();
    throw error;
  }
  return {
    env: { ...env, ...mail?.env },
    left: mail?.missing === true ? users('mail') : [],
    stop: async () => {
      await Promise.all([mail?.stop(), supervisor.stop()]);
    },
  };
}

async function startPostgres(dir: string, supervisor: Supervisor, report: Report): Promise<Record<string, string>> {
  const postgres = await embedPostgres({
    dir,
    port: await firstFreePort(randomPort()),
    settings: { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '300' },
    printLine: (line) => report.line(line),
  });
  await report.during('Starting Postgres', () => supervisor.start(postgres.part));
  return { TEST_POSTGRES_URL: postgres.url };
}

async function startTemporal(dir: string, supervisor: Supervisor, report: Report): Promise<Record<string, string>> {
  const binary = await findTemporal({ env: process.env, dataDir: join(ROOT, '.data'), report });
  const port = await firstFreePort(randomPort());
  const { address, part } = embedTemporal({
    binary,
    port,
    httpPort: await firstFreePort(port + 1),
    namespaces: NAMESPACES,
  });
  await mkdir(join(dir, 'namespaces'));
  await report.during('Starting Temporal', () => supervisor.start(part));
  return { TEST_TEMPORAL_ADDRESS: address, TEST_TEMPORAL_BINARY: binary };
}

async function mailServers(dir: string, report: Report) {
  try {
    return await report.during('Starting the mail servers', async (busyWith) => {
      const { env, stop } = await startMailServers(join(dir, 'mail'), busyWith);
      return { env, stop, missing: false };
    });
  } catch (error) {
    if (!(error instanceof MailServersMissing)) throw error;
    report.line(`Left out: ${error.message}`);
    return { env: {}, stop: async () => {}, missing: true };
  }
}

/** Two runs at once should not want the same ports. Below the ephemeral range, see firstFreePort. */
function randomPort(): number {
  return 10_000 + Math.floor(Math.random() * 20_000);
}

/** Whether a file imports another, itself or through other files of the tests. */
function imports(file: string, wanted: string, seen = new Set<string>()): boolean {
  if (file === wanted) return true;
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const inTests = [...readFileSync(file, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']+\.ts)'/g)]
    .map((match) => resolve(dirname(file), match[1] ?? ''))
    .filter((path) => path.startsWith(join(ROOT, 'test')));
  return inTests.some((path) => imports(path, wanted, seen));
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
