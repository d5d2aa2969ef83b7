import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeSecret } from './data-dir.ts';
import { StartFailure } from './failure.ts';
import { type RunAs, SYSTEM_HOME } from './postgres-binaries.ts';

/**
 * The folder with the cluster `postgres` of a data folder, or in which it must be created: `dir` itself, or, when the user of
 * Postgres cannot access it, a system folder named after it. A cluster that exists is never passed over for a new one.
 * @param printLine called with a line when the cluster must be elsewhere than in `dir`
 * @throws StartFailure with one line when the cluster is another user's, or also that of a copy of `dir`
 */
export async function homeOf(
  { dir, printLine }: { dir: string; printLine(line: string): void },
  runAs: RunAs | undefined,
): Promise<string> {
  const known = systemHome(dir);
  const existing = homesOf(dir).find((home) => existsSync(join(home, 'postgres')));
  if (existing !== undefined) checkOwner(join(existing, 'postgres'), runAs);
  const isFree = existing === undefined && (runAs === undefined || canEnter(dir, runAs));
  if (existing === dir || isFree) return dir;
  const home = known ?? (await newSystemHome(dir));
  if (!existsSync(home)) printLine(`${dir} is not accessible to the user of Postgres; storing the database in ${home}`);
  await claim(home, dir);
  return home;
}

/**
 * A data folder that was moved to another machine without its system folder would get an empty database. To be called before `homeOf`,
 * which gives a copy without an id a new one.
 * @throws StartFailure with one line when the cluster of the folder is missing
 */
export function refuseMissing(dir: string): void {
  const known = systemHome(dir);
  if (known === undefined || !existsSync(join(dir, 'postgres-password'))) return;
  // `postgres.new`: of a first start that was killed while it created the cluster
  const paths = homesOf(dir).flatMap((home) => [join(home, 'postgres'), join(home, 'postgres.new')]);
  if (paths.some((path) => existsSync(path))) return;
  throw new StartFailure(
    `the database of ${dir}, ${join(known, 'postgres')}, is missing: put it back, or restore a backup (npm run restore), ` +
      `or delete ${join(dir, ID_FILE)} to start with an empty database.`,
  );
}

/** Records whose system folder it is. @throws StartFailure when it is also that of a folder of which `dir` is a copy, or the reverse */
async function claim(home: string, dir: string): Promise<void> {
  await mkdir(home, { recursive: true, mode: 0o711 });
  const file = join(home, 'belongs-to');
  const owner = existsSync(file) ? (await readFile(file, 'utf8')).trim() : dir;
  // another folder that is gone, or has another id by now, was moved here
  if (idOf(owner) === idOf(dir) && !isSameFolder(owner, dir)) {
    throw new StartFailure(
      `${dir} and ${owner} would share the database in ${home}, since one is a copy of the other: ` +
        `delete ${ID_FILE} in the copy, to start it with an empty database.`,
    );
  }
  await writeFile(file, `${dir}\n`);
}

/** The folders in which the cluster of a data folder may be. */
export function homesOf(dir: string): string[] {
  const known = systemHome(dir);
  return known === undefined ? [dir] : [dir, known];
}

function isSameFolder(one: string, other: string): boolean {
  const [a, b] = [statSync(one), statSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}

function systemHome(dir: string): string | undefined {
  const id = idOf(dir);
  return id === undefined ? undefined : join(SYSTEM_HOME, id);
}

async function newSystemHome(dir: string): Promise<string> {
  const id = randomBytes(8).toString('hex');
  writeSecret(join(dir, ID_FILE), id);
  return join(SYSTEM_HOME, id);
}

const ID_FILE = 'instance-id';

function idOf(dir: string): string | undefined {
  const file = join(dir, ID_FILE);
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
}

/** Postgres refuses the files of another user, and a new cluster beside them would take over their password. */
function checkOwner(cluster: string, runAs: RunAs | undefined): void {
  if (canEnter(cluster, runAs)) return;
  throw new StartFailure(
    runAs !== undefined && statSync(cluster).uid === runAs.uid
      ? `the database in ${cluster} is not accessible to the user of Postgres: let that user enter the folders above it.`
      : `the database in ${cluster} belongs to another user: run this as the user who created it.`,
  );
}

/** `runAs` undefined: the user of this process. */
function canEnter(dir: string, runAs: RunAs | undefined): boolean {
  if (runAs !== undefined) return spawnSync('test', ['-x', dir], { ...runAs, cwd: '/', stdio: 'ignore' }).status === 0;
  try {
    accessSync(dir, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
