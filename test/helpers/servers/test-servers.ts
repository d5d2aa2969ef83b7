import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { StartFailure } from '../../../src/embedded/failure.ts';
import { firstFreePort } from '../../../src/embedded/ports.ts';
import { embedPostgres } from '../../../src/embedded/postgres.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import type { Report } from '../../../src/embedded/report.ts';
import type { Supervisor } from '../../../src/embedded/supervise.ts';
import { embedTemporal } from '../../../src/embedded/temporal.ts';
import { findTemporal } from '../../../src/embedded/temporal-binary.ts';
import { MailServersMissing } from './mail-packages.ts';
import { ensureBrowser } from './browser-package.ts';
import { startMailServers } from './mail-servers.ts';
import { NAMESPACES } from './temporal.ts';

const ROOT = projectRoot();
/** A test needs what it imports the helper of, itself or through others. */
const HELPERS = {
  build: 'product/built.ts',
  site: 'servers/docs-site.ts',
  postgres: 'servers/postgres.ts',
  temporal: 'servers/temporal.ts',
  mail: 'servers/mail-servers.ts',
  products: 'product/shared-product.ts',
  browser: 'servers/browser-package.ts',
} as const;
type Need = keyof typeof HELPERS;

/** Everything that a run of the tests brought up. */
export interface TestServers {
  env: Record<string, string>;
  /** test files that cannot run here */
  leftOut: string[];
  stop(): Promise<void>;
}

/**
 * Starts the servers that the test files need, all their files in `dir`, and builds the product where one runs it. Postgres is
 * that of `TEST_POSTGRES_URL` (a role that may create databases) where the caller sets it.
 * @throws StartFailure with one line that says why one cannot run here
 */
export async function startTestServers(
  dir: string,
  files: string[],
  supervisor: Supervisor,
  report: Report,
): Promise<TestServers> {
  const users = (need: Need) => files.filter((file) => imports(file, join(ROOT, 'test', 'helpers', HELPERS[need])));
  const isNeeded = (need: Need) => users(need).length > 0;
  const env: Record<string, string> = {};
  const noBrowser = isNeeded('browser') ? await ensureBrowser((line) => report.line(line)) : undefined;
  if (noBrowser !== undefined) report.line(`Left out: ${noBrowser}`);
  const mail = isNeeded('mail') ? await mailServers(dir, report) : undefined;
  try {
    await Promise.all([
      isNeeded('build') && build(report, 'build.mjs'),
      isNeeded('site') && build(report, join('docs', 'site.mjs')),
      isNeeded('postgres') &&
        process.env['TEST_POSTGRES_URL'] === undefined &&
        startPostgres(dir, supervisor, report).then((more) => Object.assign(env, more)),
      isNeeded('temporal') && startTemporal(dir, supervisor, report).then((more) => Object.assign(env, more)),
    ]);
  } catch (error) {
    await mail?.stop();
    throw error;
  }
  Object.assign(env, mail?.env);
  const products = isNeeded('products') ? await startProducts(dir, env) : undefined;
  return {
    env: { ...env, ...products?.env },
    leftOut: [...(mail?.missing === true ? users('mail') : []), ...(noBrowser === undefined ? [] : users('browser'))],
    stop: async () => {
      await products?.stop();
      await Promise.all([mail?.stop(), supervisor.stop()]);
    },
  };
}

/** Also for the processes of the products, which are started by this one. */
async function startProducts(dir: string, env: Readonly<Record<string, string>>) {
  Object.assign(process.env, env, { TEST_DIR: dir });
  const { startProductHost } = await import('../product/product-host.ts');
  return startProductHost();
}

async function build(report: Report, script: string): Promise<void> {
  await report.during(`Building (${script})`, async () => {
    await promisify(execFile)(process.execPath, [join(ROOT, 'scripts', script)], { cwd: ROOT }).catch(
      (error: { stdout?: string; stderr?: string }) => {
        throw new StartFailure(`The build failed:\n${error.stdout ?? ''}${error.stderr ?? ''}`);
      },
    );
  });
}

async function startPostgres(dir: string, supervisor: Supervisor, report: Report): Promise<Record<string, string>> {
  const postgres = await embedPostgres({
    dir,
    port: await firstFreePort(randomPort()),
    settings: {
      ...{ fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '500' },
      // CREATE and DROP DATABASE wait for each client that is signing in; tests freeze some
      authentication_timeout: '10s',
    },
    printLine: (line) => report.line(line),
  });
  await report.during('Starting Postgres', () => supervisor.start(postgres.part));
  return { TEST_POSTGRES_URL: postgres.url };
}

async function startTemporal(dir: string, supervisor: Supervisor, report: Report): Promise<Record<string, string>> {
  const binary = await findTemporal({ env: process.env, dataDir: join(ROOT, '.data'), report });
  const port = await firstFreePort(randomPort());
  const { address, part } = embedTemporal({ binary, port, namespaces: NAMESPACES });
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

/** Parallel runs should use different ports. Below the ephemeral range, see firstFreePort. */
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
