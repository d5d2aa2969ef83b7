import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StartFailure } from '../../../src/embedded/failure.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { createReport, type Report } from '../../../src/embedded/report.ts';
import { handleOf, isRunning, type ProcessHandle } from '../../../src/runtime/process-handle.ts';
import { createSupervisor } from '../../../src/embedded/supervise.ts';
import { isLong } from './long.ts';
import { ON_ENGINE, OTHER_LIVE } from './other-live.ts';
import { readResults, type Results, slowestFiles } from './test-results.ts';
import { startTestServers, type TestServers } from '../servers/test-servers.ts';

const ROOT = projectRoot();
const JEST = ['--no-warnings', join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js')];
const PREFIX = 'email-mailbox-api-test-';
const LINGER_S = 20;

/**
 * Builds and starts the servers whose helpers the chosen tests import, runs jest with the given options and paths, stops
 * everything. Prints the counts as the last line and returns the exit code.
 */
export async function runTests(given: string[]): Promise<number> {
  const args = chooseFiles(given);
  const report = createReport(process.stderr);
  await removeOldRuns();
  const dir = await mkdtemp(join(tmpdir(), PREFIX));
  await writeFile(join(dir, 'owner'), JSON.stringify(handleOf(process.pid)));
  // as root, Postgres runs as a separate user
  await chmod(dir, 0o711);
  const supervisor = createSupervisor({ logDir: join(dir, 'logs'), printLine: (line) => report.line(line) });
  let servers: TestServers | undefined;
  let jest: ChildProcess | undefined;
  const interrupt = (): void => {
    if (jest === undefined) void supervisor.stop().then(() => process.exit(130));
    else jest.kill('SIGTERM');
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt).on('SIGHUP', interrupt);
  try {
    servers = await startTestServers(dir, listTests(args), supervisor, report);
    // includes installing and building
    const setUpSeconds = process.uptime();
    const output = join(dir, 'results.json');
    jest = startJest(args, output, { ...servers.env, TEST_DIR: dir }, servers.leftOut);
    await exitOf(jest, output, report);
    jest = undefined;
    const testSeconds = process.uptime() - setUpSeconds;
    await servers.stop();
    const results = await readResults(output);
    report.line(slowestFiles(results));
    report.line(`Set-up ${setUpSeconds.toFixed(0)} s, tests ${testSeconds.toFixed(0)} s`);
    return conclude(results, servers.leftOut);
  } catch (error) {
    await (servers?.stop() ?? supervisor.stop());
    if (!(error instanceof StartFailure)) throw error;
    report.line(error.message);
    return 1;
  } finally {
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Without paths: the files of `npm test`; with `--other-live`: the files that it omits. The long form omits none. Those on a
 * container engine run only when their folder is named.
 */
function chooseFiles(given: string[]): string[] {
  const args = given.filter((arg) => arg !== '--other-live');
  if (args.some((arg) => arg.includes(ON_ENGINE))) return args;
  const hasPaths = args.some((arg) => !arg.startsWith('-'));
  if (!hasPaths && given.includes('--other-live')) return [...args, ...OTHER_LIVE];
  const omitted = [ON_ENGINE, ...(hasPaths || isLong() ? [] : OTHER_LIVE)];
  return [...args, '--testPathIgnorePatterns', ...omitted.map(escapeRegExp)];
}

function startJest(
  args: string[],
  output: string,
  env: Readonly<Record<string, string>>,
  leftOut: readonly string[],
): ChildProcess {
  // beside those of the command line, which jest takes as one list
  const ignore = leftOut.flatMap((file) => ['--testPathIgnorePatterns', escapeRegExp(file)]);
  const results = ['--json', `--outputFile=${output}`, '--passWithNoTests'];
  return spawn(process.execPath, [...JEST, ...args, ...ignore, ...results], {
    cwd: ROOT,
    // --json prints on standard output too
    stdio: ['inherit', 'ignore', 'inherit'],
    env: { ...process.env, ...env, NODE_ENV: 'test' },
  });
}

/** Waits for the results: a socket or timer that a test leaves open keeps jest from exiting. */
async function exitOf(jest: ChildProcess, results: string, report: Report): Promise<void> {
  let seconds = 0;
  const watch = setInterval(() => {
    if (!existsSync(results) || ++seconds < LINGER_S) return;
    clearInterval(watch);
    report.line('A test left something open: jest is killed.');
    jest.kill('SIGKILL');
  }, 1000);
  await once(jest, 'exit');
  clearInterval(watch);
}

/** Removes the folders of killed runs. */
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

/** Prints the machine-readable lines of every run: each failure, and the counts as the last line. */
function conclude({ passed, failed, skipped, failures }: Results, leftOut: readonly string[]): number {
  if (leftOut.length > 0) process.stderr.write(`${leftOut.length} test files were left out; see above.\n`);
  for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
  process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  return failed > 0 || passed === 0 ? 1 : 0;
}

function listTests(args: string[]): string[] {
  const output = execFileSync(process.execPath, [...JEST, ...args, '--listTests', '--passWithNoTests'], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return output.split('\n').filter((line) => line.endsWith('.ts'));
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
