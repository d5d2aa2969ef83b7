// `npm run docs`: dist/docs with the site of docs/, which the API serves; does nothing if it is up to date. Installs the packages
// of site/ first, which nothing else needs.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { filesIn } from '../build.mjs';
import { during, ensureInstalled, node, root } from '../install.mjs';

const SITE = join(root, 'site');
const OUT = join(root, 'dist', 'docs');
const STAMP = join(root, 'dist', '.docs-built-from');

export async function ensureSite() {
  const sources = hashOfSources();
  if (existsSync(join(OUT, 'index.html')) && existsSync(STAMP) && readFileSync(STAMP, 'utf8') === sources) return;
  await ensureInstalled(SITE);
  await during('Building the documents', async () => {
    const made = `${OUT}.new`;
    rmSync(made, { recursive: true, force: true });
    await node([join(SITE, 'build.mjs'), made]);
    compress(made);
    rmSync(OUT, { recursive: true, force: true });
    renameSync(made, OUT);
  });
  writeFileSync(STAMP, sources);
}

/** Time for the product to start with all cores, ms. */
const START_MS = 10_000;

/** Builds it, a while later, in another process that leaves the cores to all others, and ends with this one. */
export async function buildSiteInBackground() {
  await sleep(START_MS);
  const script = fileURLToPath(import.meta.url);
  const child = spawn('nice', ['-n', '19', process.execPath, script], { cwd: root, stdio: 'ignore' });
  child.unref();
  process.on('exit', () => child.kill());
  child.on('error', () => {});
  child.on('exit', (code) => {
    if (code !== 0) console.log('The documents could not be built: `npm run docs` shows why.');
  });
}

function compress(folder) {
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };
  for (const file of filesIn(relative(root, folder)).filter((path) => /\.(js|css|svg|html|md)$/.test(path))) {
    const bytes = readFileSync(join(root, file));
    writeFileSync(join(root, `${file}.br`), brotliCompressSync(bytes, quality));
    writeFileSync(join(root, `${file}.gz`), gzipSync(bytes));
  }
}

/** With the files outside of docs/ that pages link. */
function hashOfSources() {
  const hash = createHash('sha256');
  const loose = readdirSync(SITE).filter((name) => /\.(mjs|json)$/.test(name));
  const files = ['docs', 'deploy', join('scripts', 'docs'), join('site', '.vitepress')].flatMap(filesIn);
  for (const file of [...files, ...loose.map((name) => join('site', name)), 'SECURITY.md'].sort()) {
    hash.update(`${file}\0`);
    hash.update(readFileSync(join(root, file)));
  }
  return hash.digest('hex');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await ensureInstalled();
  await ensureSite();
}
