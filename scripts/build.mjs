// `npm run build`: dist/ with the compiled sources, the migrations and the workflow bundle; nothing when it is up to date.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { during, ensureInstalled, node, root } from './install.mjs';

const STAMP = join(root, 'dist', '.built-from');

export async function ensureBuilt() {
  const sources = hashOfSources();
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === sources) return;
  await during('Building', async () => {
    await node([join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(root, 'tsconfig.build.json')]);
    // what tsc leaves where it is: migrations, modules that Temporal requires by path
    for (const file of filesIn('src').filter((path) => !/\.(ts|md)$/.test(path))) {
      cpSync(join(root, file), join(root, 'dist', file));
    }
    await node([join(root, 'scripts', 'bundle-workflows.mjs')]);
  });
  mkdirSync(join(root, 'dist'), { recursive: true });
  writeFileSync(STAMP, sources);
}

/** By content: a fresh checkout has new times but maybe the same sources. */
function hashOfSources() {
  const hash = createHash('sha256');
  const files = readdirSync(root).filter((name) => /\.ts$|^tsconfig.*\.json$|^package-lock\.json$/.test(name));
  files.push(...['src', 'scripts'].flatMap(filesIn));
  for (const file of files.sort()) {
    hash.update(`${file}\0`);
    hash.update(readFileSync(join(root, file)));
  }
  return hash.digest('hex');
}

/** Paths from the root. */
function filesIn(folder) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await ensureInstalled();
  await ensureBuilt();
}
