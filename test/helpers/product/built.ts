import { promisify } from 'node:util';
import { homedir } from 'node:os';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { OLDEST_PROGRAM } from '../../../src/db/driver/versions.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The output of `npm run build`. `npm test` builds before it starts tests that import this. */

/** The program of a process of the product. */
export function builtEntry(name: 'backup' | 'restore' | 'server' | 'start' | 'worker'): string {
  return join(projectRoot(), 'dist', `${name}.js`);
}

/** The URL of a module of `src`, by its path there without an extension. */
export function builtModule(path: string): string {
  return pathToFileURL(join(projectRoot(), 'dist', 'src', `${path}.js`)).href;
}

/** The pages of web/. */
export const BUILT_PAGES = join(projectRoot(), 'dist', 'web');

/** The workflows as workers load them. */
export const BUILT_WORKFLOWS: WorkflowBundleOption = { codePath: join(projectRoot(), 'dist', 'workflow-bundle.js') };

/** The first version that later ones promise to upgrade from. */
export const FIRST_VERSION = '7646dca';

const run = promisify(execFile);

/** Whether the history of this clone has the commit. */
export async function hasCommit(commit: string): Promise<boolean> {
  return run('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: projectRoot() }).then(
    () => true,
    () => false,
  );
}

/**
 * The oldest commit whose programs work beside those of this version: it added the migration of `OLDEST_PROGRAM`. Undefined in
 * a clone without history.
 */
export async function oldestBeside(): Promise<string | undefined> {
  const migrations = join('src', 'db', 'migrations');
  const journal = await readFile(join(projectRoot(), migrations, 'meta', '_journal.json'), 'utf8');
  const { entries } = JSON.parse(journal) as { entries: { tag: string; when: number }[] };
  const added = join(migrations, `${entries.find(({ when }) => when === OLDEST_PROGRAM)?.tag}.sql`);
  const git = (...args: string[]) =>
    run('git', args, { cwd: projectRoot() }).then(
      ({ stdout }) => stdout.trim(),
      () => '',
    );
  if ((await git('rev-parse', '--is-shallow-repository')) !== 'false') return undefined;
  return (await git('log', '-1', '--format=%h', '--diff-filter=A', '--', added)) || undefined;
}

/** Builds the sources of a commit, once on this machine. Returns their folder, which has `dist`. */
export async function earlierVersion(commit: string): Promise<string> {
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'email-mailbox-api');
  const folder = join(cache, `version-${commit}`);
  if (existsSync(folder)) return folder;
  const partial = `${folder}.${process.pid}`;
  await mkdir(partial, { recursive: true });
  try {
    await run('sh', ['-ec', 'git archive "$1" | tar -x -C "$2"', 'sh', commit, partial], { cwd: projectRoot() });
    await run('npm', ['ci'], { cwd: partial, maxBuffer: 1 << 26 });
    await run('npm', ['run', 'build'], { cwd: partial, maxBuffer: 1 << 26 });
    await rename(partial, folder);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return folder;
}
