import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { StartFailure } from './failure.ts';
import type { Report } from './report.ts';

/** The version that this was built and measured with; it has server 1.32.0. */
export const TEMPORAL_CLI_VERSION = '1.9.1';
/** The Go program that replaces it, with the same server: the CLI's own module cannot be built without its repository. */
const GO_PROGRAM = fileURLToPath(new URL('./temporal-server', import.meta.url));
/**
 * Before 1.31 a cancelled call can stop SQLite's driver for good (https://gitlab.com/cznic/sqlite/-/issues/241); 1.32 comes with a
 * UI that can be kept from fetching news.
 */
const OLDEST_SERVER = [1, 32];

const DOWNLOADS = 'https://temporal.download';
/** SHA-256 of the archives of that version, as its release lists them (checksums.txt). */
const ARCHIVE_SUMS: Readonly<Record<string, string>> = {
  linux_amd64: '09a0326a51db84d02735e53542b9ebd8c4758daf47482a9ab0abce15844e60d5',
  linux_arm64: '6c57c352d52fc3df34412376fd9ba6f74b7e3ace8e426e6cba8600156d36a145',
  darwin_amd64: '48cdd6c84c56e27ae8e4d9a47052b89289a9c552dee029b49dd312c6fb72873f',
  darwin_arm64: '41e0425378fcb4fb5766340b97435e20fe47bbff2d7bf644ec2d51f7662b7c56',
};
const DOWNLOAD_DEADLINE_MS = 10 * 60_000;
const HEADERS_DEADLINE_MS = 15_000;
/** Longer than a download or a build takes. */
const ABANDONED_MS = 60 * 60_000;

const run = promisify(execFile);

export interface FindOptions {
  env: Readonly<Record<string, string | undefined>>;
  /** `<dataDir>/bin/temporal` is a candidate too */
  dataDir: string;
  report: Report;
  /** where the official download is, and the SHA-256 of its archive for each platform; others in tests */
  downloads?: { index: string; sums: Readonly<Record<string, string>> };
}

/**
 * The path of the `temporal` program: an installed one (PATH, DATA_DIR/bin, Go's bin folder, the cache), else the
 * official download, else a build of `temporal-server`, both stored in the cache. Prints one line for each way that failed.
 * The SDK's downloader (of @temporalio/testing) is not a replacement: it starts a server instead of returning a program
 * to supervise, and cannot build one where no download exists. @throws StartFailure with the next step when all fail
 */
export async function findTemporal(options: FindOptions): Promise<string> {
  const { env, report } = options;
  const cache = cacheFolder(env);
  for (const path of candidates(options, cache)) {
    const problem = await problemOf(path);
    if (problem === undefined) return path;
    if (problem !== 'absent') report.line(`${path} is not used: ${problem}`);
  }
  await mkdir(cache, { recursive: true }).catch(() => {
    throw new StartFailure(
      `${cache} cannot be written, where Temporal would be stored: set XDG_CACHE_HOME to another folder.`,
    );
  });
  try {
    return await report.during('Downloading the Temporal server', (busyWith) => download(options, cache, busyWith));
  } catch (error) {
    report.line(`The Temporal server could not be downloaded (${short(error)}); building it with Go instead.`);
  }
  try {
    return await report.during('Building the Temporal server, once, about 4 minutes', (busyWith) =>
      build(env, cache, busyWith),
    );
  } catch (error) {
    throw new StartFailure(
      `The Temporal server could not be built with Go (${short(error)}): install the Temporal CLI ` +
        '(https://docs.temporal.io/cli), or Go 1.21 or later, or set TEMPORAL_ADDRESS to a server of your own.',
    );
  }
}

function candidates({ env, dataDir }: FindOptions, cache: string): string[] {
  const onPath = (env['PATH'] ?? '').split(delimiter).filter((dir) => dir !== '');
  const goBins = [env['GOBIN'], ...(env['GOPATH'] ?? '').split(delimiter).map((dir) => dir && join(dir, 'bin'))];
  const dirs = [...onPath, join(dataDir, 'bin'), cache, ...goBins, join(home(env), 'go', 'bin')];
  const known = dirs.filter((dir): dir is string => dir !== undefined && dir !== '');
  return [...new Set(known)].map((dir) => join(dir, 'temporal'));
}

function home(env: FindOptions['env']): string {
  return env['HOME'] || homedir();
}

/** Another one after a change of the Go program or its modules. */
function cacheFolder(env: FindOptions['env']): string {
  const sources = createHash('sha256');
  for (const file of ['main.go', 'go.mod']) sources.update(readFileSync(join(GO_PROGRAM, file)));
  return join(
    env['XDG_CACHE_HOME'] || join(home(env), '.cache'),
    'email-mailbox-api',
    `temporal-${TEMPORAL_CLI_VERSION}-${sources.digest('hex').slice(0, 8)}`,
  );
}

/** Undefined when that program can serve, 'absent' when the file does not exist, else why not. */
async function problemOf(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || !found.isFile()) return 'absent';
  try {
    // `temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)`
    const { stdout } = await run(path, ['--version'], { timeout: 20_000 });
    const server = /Server (\d+)\.(\d+)/.exec(stdout);
    if (server === null) return 'it does not print a server version';
    const [major = 0, minor = 0] = server.slice(1).map(Number);
    const [oldMajor = 0, oldMinor = 0] = OLDEST_SERVER;
    const recent = major > oldMajor || (major === oldMajor && minor >= oldMinor);
    return recent ? undefined : `its server ${major}.${minor} is older than ${OLDEST_SERVER.join('.')}`;
  } catch (error) {
    return short(error);
  }
}

/** As Temporal's SDK does it: an index names the address of the archive. An archive whose SHA-256 is not known is not run. */
async function download(options: FindOptions, cache: string, busyWith: (detail: string) => void): Promise<string> {
  const { index, sums } = options.downloads ?? { index: DOWNLOADS, sums: ARCHIVE_SUMS };
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const sum = sums[`${process.platform}_${arch}`];
  if (sum === undefined) throw new Error(`no SHA-256 is known of the archive for ${process.platform} ${arch}`);
  const query = `arch=${arch}&platform=${process.platform}&format=tar.gz`;
  const response = await get(`${index}/cli/v${TEMPORAL_CLI_VERSION}?${query}`);
  const { archiveUrl, fileToExtract } = (await response.json()) as { archiveUrl: string; fileToExtract: string };
  const archive = await bytesOf(await get(archiveUrl), busyWith);
  if (createHash('sha256').update(archive).digest('hex') !== sum)
    throw new Error('its SHA-256 is not the published one');
  const work = await mkdtemp(join(cache, 'download-'));
  try {
    await writeFile(join(work, 'archive.tar.gz'), archive);
    await run('tar', ['-xzf', join(work, 'archive.tar.gz'), '-C', work, basename(fileToExtract)]);
    return await store(join(work, basename(fileToExtract)), cache);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function get(url: string): Promise<Response> {
  const abort = new AbortController();
  const headers = setTimeout(() => abort.abort(new Error('no response within 15 s')), HEADERS_DEADLINE_MS);
  try {
    const response = await fetch(url, {
      signal: AbortSignal.any([abort.signal, AbortSignal.timeout(DOWNLOAD_DEADLINE_MS)]),
    });
    if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`);
    return response;
  } finally {
    clearTimeout(headers);
  }
}

async function bytesOf(response: Response, busyWith: (detail: string) => void): Promise<Buffer> {
  const total = Number(response.headers.get('content-length') ?? 0);
  const chunks: Uint8Array[] = [];
  let received = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk as Uint8Array);
    received += (chunk as Uint8Array).length;
    busyWith(
      total > 0
        ? `${Math.round((received / total) * 100)} % of ${Math.round(total / 1e6)} MB`
        : `${Math.round(received / 1e6)} MB`,
    );
  }
  return Buffer.concat(chunks);
}

async function build(env: FindOptions['env'], cache: string, busyWith: (detail: string) => void): Promise<string> {
  const go = await firstThatRuns([
    ...(env['PATH'] ?? '').split(delimiter).map((dir) => join(dir, 'go')),
    '/usr/local/go/bin/go',
  ]);
  if (go === undefined) throw new Error('Go is not installed');
  const work = await mkdtemp(join(cache, 'build-'));
  try {
    const program = join(work, 'temporal');
    await goBuild(go, program, { ...env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly' }, busyWith);
    return await store(program, cache);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function firstThatRuns(paths: string[]): Promise<string | undefined> {
  for (const path of paths) {
    const works = await run(path, ['version'], { timeout: 20_000 }).then(
      () => true,
      () => false,
    );
    if (works) return path;
  }
  return undefined;
}

function goBuild(
  go: string,
  program: string,
  env: NodeJS.ProcessEnv,
  busyWith: (detail: string) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ['build', '-v', '-trimpath', '-ldflags=-s -w', '-o', program, '.'];
    const child = spawn(go, args, { env, cwd: GO_PROGRAM, stdio: ['ignore', 'ignore', 'pipe'] });
    let last = '';
    let packages = 0;
    child.stderr.on('data', (chunk: Buffer) => {
      for (const line of chunk.toString().split('\n').filter(Boolean)) {
        last = line;
        if (!line.startsWith('go: ')) packages++;
        busyWith(line.startsWith('go: ') ? line.slice(4) : `${packages} packages built`);
      }
    });
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(last || `exit code ${code ?? 'unknown'}`)),
    );
  });
}

async function store(file: string, cache: string): Promise<string> {
  await chmod(file, 0o755);
  const problem = await problemOf(file);
  if (problem !== undefined) throw new Error(`the program does not run: ${problem}`);
  const path = join(cache, 'temporal');
  await rename(file, path);
  await removeLeftOvers(cache);
  return path;
}

/** Removes what interrupted attempts left behind; another start may be using some of it. */
async function removeLeftOvers(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    if (!/^(download|build)-/.test(name)) continue;
    const folder = join(cache, name);
    const found = await stat(folder).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > ABANDONED_MS) await rm(folder, { recursive: true, force: true });
  }
}

function short(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  return (text.split('\n')[0] ?? '').slice(0, 200);
}
