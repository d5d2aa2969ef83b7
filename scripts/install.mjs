// Installs the packages when they are missing or outdated: `node scripts/install.mjs`, and first in each other script.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Runs `npm ci` when the packages of a folder are missing or differ from its package-lock.json. Needs only Node. */
export async function ensureInstalled(folder = root) {
  if (!isNodeSupported(process.versions.node)) {
    fail(`Node 20.19, 22.12 or 24 or later is needed; this is ${process.versions.node}.`);
  }
  if (isInstalled(folder)) return;
  const install = ['ci', '--no-audit', '--no-fund'];
  await during('Installing packages', async () => {
    // npm does not refetch what is in its cache, which may be older than a required package
    const output = await npm([...install, '--prefer-offline'], { cwd: folder, mayFail: true });
    if (output === undefined) await npm(install, { cwd: folder });
  });
}

/** Runs `work`; if it takes longer than 2 s, reports so every 10 s, and how long it took. */
export async function during(what, work) {
  const begin = Date.now();
  const seconds = () => `${Math.round((Date.now() - begin) / 1000)} s`;
  let shown = false;
  const show = () => {
    shown = true;
    console.log(`${what} … ${seconds()}`);
  };
  let timer = setTimeout(() => {
    show();
    timer = setInterval(show, 10_000);
  }, 2000);
  try {
    const result = await work();
    clearTimeout(timer);
    if (shown) console.log(`${what}: done after ${seconds()}`);
    return result;
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a script with this Node. Its output is shown only when it fails, which ends this process. */
export function node(args, options = {}) {
  return run(process.execPath, args, options);
}

export function fail(line) {
  console.error(line);
  process.exit(1);
}

function npm(args, options) {
  // under `npm start` this names the npm that runs this script, which may not be on PATH
  const self = process.env.npm_execpath;
  return self && /\.c?js$/.test(self) ? run(process.execPath, [self, ...args], options) : run('npm', args, options);
}

/** Returns the output. A command that fails ends this process, unless it `mayFail`: then the result is undefined. */
function run(command, args, { mayFail = false, ...options } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
    let isInterrupted = false;
    const interrupt = () => {
      isInterrupted = true;
      child.kill('SIGTERM');
    };
    process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
    child.once('error', (error) => fail(`${command} cannot be run: ${error.message}`));
    child.once('close', (code) => {
      process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
      if (code === 0) return resolve(output);
      if (mayFail && !isInterrupted) return resolve(undefined);
      process.stderr.write(shorten(output));
      fail(`${[command.split('/').at(-1), ...args.map((arg) => arg.replace(`${root}/`, ''))].join(' ')} failed.`);
    });
  });
}

/** The first lines that name errors; npm adds a page of help to its own. */
function shorten(output) {
  const lines = output.split('\n').filter((line) => line.trim() !== '' && line.trim() !== 'npm error');
  const errors = lines.filter((line) => /error/i.test(line));
  return `${(errors.length > 0 ? errors : lines).slice(0, 12).join('\n')}\n`;
}

/** Checks `engines` of package.json. */
function isNodeSupported(version) {
  const [major, minor] = version.split('.').map(Number);
  return major >= 24 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);
}

/** npm lists installed packages in its own file, without those of other platforms. */
function isInstalled(folder) {
  const written = join(folder, 'node_modules', '.package-lock.json');
  if (!existsSync(written)) return false;
  try {
    const wanted = packagesOf(join(folder, 'package-lock.json'));
    const installed = packagesOf(written);
    return Object.entries(wanted).every(([path, entry]) => {
      if (path === '') return true;
      const present = installed[path];
      return present === undefined ? entry.optional === true || entry.peer === true : present.version === entry.version;
    });
  } catch {
    return false;
  }
}

function packagesOf(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await ensureInstalled();
