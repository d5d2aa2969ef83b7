// `npm run build`: dist/ with the compiled sources, the migrations and the workflow bundle; does nothing if it is up to
// date.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { during, ensureInstalled, node, root } from './install.mjs';

const STAMP = join(root, 'dist', '.built-from');

export async function ensureBuilt() {
  const sources = hashOfSources();
  if (isBuilt(sources)) return;
  // what an interrupted build leaves is partly new
  rmSync(STAMP, { force: true });
  await during('Building', async () => {
    const pages = buildPages();
    // `npm run types` checks types, which takes longer than the build
    await node([join(root, 'scripts', 'compile.mjs')]);
    // migrations, modules that Temporal requires by path
    for (const file of filesIn('src').filter((path) => !/\.(ts|md)$/.test(path))) {
      cpSync(join(root, file), join(root, 'dist', file));
    }
    await Promise.all([node([join(root, 'scripts', 'bundle-workflows.mjs')]), pages]);
  });
  mkdirSync(join(root, 'dist'), { recursive: true });
  writeFileSync(STAMP, sources);
}

/** Whether dist/ is complete and was built from these sources. */
export function isBuilt(sources = hashOfSources()) {
  return existsSync(STAMP) && readFileSync(STAMP, 'utf8') === sources;
}

/** `dist/web`: the dashboard, the connect page and the reference, with precompressed files for browsers. */
async function buildPages() {
  const web = join(root, 'web');
  const vite = createRequire(join(web, 'package.json')).resolve('vite/package.json');
  await node([join(dirname(vite), 'bin', 'vite.js'), 'build', web]);
  for (const file of filesIn(join('dist', 'web', 'assets')).filter((path) => /\.(js|css|svg)$/.test(path))) {
    const bytes = readFileSync(join(root, file));
    writeFileSync(join(root, `${file}.br`), brotliCompressSync(bytes));
    writeFileSync(join(root, `${file}.gz`), gzipSync(bytes, { level: 9 }));
  }
}

/** By content: a fresh checkout has new times but possibly the same sources. */
function hashOfSources() {
  const hash = createHash('sha256');
  const files = readdirSync(root).filter((name) => /\.ts$|^tsconfig.*\.json$|^package-lock\.json$/.test(name));
  files.push(
    ...['src', 'scripts', join('web', 'src')].flatMap(filesIn).filter((path) => !path.endsWith('schema.d.ts')),
  );
  files.push(...['index.html', 'connect.html', 'reference.html', 'vite.config.js'].map((name) => join('web', name)));
  for (const file of files.sort()) {
    hash.update(`${file}\0`);
    hash.update(readFileSync(join(root, file)));
  }
  return hash.digest('hex');
}

/** Paths from the root. */
export function filesIn(folder) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await ensureInstalled();
  await ensureBuilt();
}
