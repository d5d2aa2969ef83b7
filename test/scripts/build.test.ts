import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { handleOf } from '../../src/runtime/process-handle.ts';
import { builtModule } from '../helpers/product/built.ts';

/* The scripts that build, in a folder whose compiler copies one file, and whose bundler copies another. */

const PROJECT = join(import.meta.dirname, '..', '..');

let root: string;
const write = (path: string, text: string) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const copying = (from: string, to: string) => `
  import { copyFileSync, mkdirSync } from 'node:fs';
  if (process.env.FAILS === '${to}') process.exit(1);
  mkdirSync('dist/src', { recursive: true });
  copyFileSync('${from}', '${to}');`;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'build-'));
  for (const name of ['build.mjs', 'built.mjs', 'in-use.mjs', 'install.mjs', 'start.mjs']) {
    mkdirSync(join(root, 'scripts'), { recursive: true });
    copyFileSync(join(PROJECT, 'scripts', name), join(root, 'scripts', name));
  }
  write('scripts/compile.mjs', copying('src/code.ts', 'dist/backup.js'));
  write('scripts/bundle-workflows.mjs', copying('src/workflows.ts', 'dist/workflow-bundle.js'));
  write('package.json', '{ "type": "module" }');
  write('package-lock.json', '{ "packages": {} }');
  write('node_modules/.package-lock.json', '{ "packages": {} }');
  for (const name of ['index.html', 'connect.html', 'reference.html', 'vite.config.js']) write(`web/${name}`, '');
  write('web/package.json', '{}');
  write('web/node_modules/vite/package.json', '{}');
  write('web/node_modules/vite/bin/vite.js', '');
  checkOut('earlier');
});
afterEach(() => rmSync(root, { recursive: true }));

function checkOut(version: string): void {
  write('src/code.ts', `console.log('the code of the ${version} version');`);
  write('src/workflows.ts', `the workflows of the ${version} version`);
}

const run = (script: string, args: string[], env: Record<string, string> = {}) =>
  spawnSync(process.execPath, [join(root, 'scripts', script), ...args], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...env },
    encoding: 'utf8',
    timeout: 20_000,
  });
const built = () => [read('dist/backup.js'), read('dist/workflow-bundle.js')];

it('builds everything again after a build that was interrupted, also from the sources of the one before', () => {
  expect(run('build.mjs', []).status).toBe(0);
  const earlier = built();
  checkOut('later');
  expect(run('build.mjs', [], { FAILS: 'dist/workflow-bundle.js' }).status).toBe(1);
  checkOut('earlier');
  expect(run('build.mjs', []).status).toBe(0);
  expect(built()).toEqual(earlier);
});

describe('beside npm start', () => {
  /** As an `npm start` leaves it, which runs. */
  const lock = (began: string | undefined) => write('.data/lock', JSON.stringify({ pid: process.pid, began }));
  const later = 'the code of the later version\n';
  beforeEach(() => {
    run('build.mjs', []);
    write('dist/start.js', "console.log('DATA_DIR is in use');");
    mkdirSync(join(root, 'dist', 'src', 'runtime'), { recursive: true });
    copyFileSync(
      new URL(builtModule('runtime/process-handle')),
      join(root, 'dist', 'src', 'runtime', 'process-handle.js'),
    );
    checkOut('later');
    // and with packages that are not installed
    write('package-lock.json', '{ "packages": { "node_modules/another": { "version": "1.0.0" } } }');
    write('npm.cjs', `require('fs').copyFileSync('package-lock.json', 'node_modules/.package-lock.json');`);
  });
  const start = () => run('start.mjs', [], { npm_execpath: join(root, 'npm.cjs') });

  it('another one on its folder is refused before anything is installed or built', () => {
    lock(handleOf(process.pid)?.began);
    const before = built();
    expect(start()).toMatchObject({ status: 0, stdout: 'DATA_DIR is in use\n' });
    expect(built()).toEqual(before);
    expect(read('node_modules/.package-lock.json')).not.toContain('another');
    lock('long ago');
    expect(start().status).toBe(0);
    expect(built()).not.toEqual(before);
    expect(read('node_modules/.package-lock.json')).toContain('another');
  });

  const command = (env = {}) => run('built.mjs', ['backup'], { npm_execpath: join(root, 'npm.cjs'), ...env });

  it('a command on what it stores installs and builds when the sources are newer', () => {
    expect(command()).toMatchObject({ status: 0, stdout: later });
    expect(read('node_modules/.package-lock.json')).toContain('another');
  });

  it('a command on what it stores changes nothing: it runs what is built, and says so', () => {
    lock(handleOf(process.pid)?.began);
    const before = built();
    expect(command()).toMatchObject({
      status: 0,
      stdout:
        'The sources have changed since the running version was built: this command uses the running version, ' +
        'and the next npm start builds the new one.\n' +
        'the code of the earlier version\n',
    });
    expect(built()).toEqual(before);
    expect(read('node_modules/.package-lock.json')).not.toContain('another');
    checkOut('earlier');
    write('package-lock.json', '{ "packages": {} }');
    expect(command({ DATA_DIR: join(root, '.data') }).stdout).toBe('the code of the earlier version\n');
  });

  it('a command builds when that npm start has ended, another folder is meant, or nothing is built', () => {
    lock('long ago');
    expect(command().stdout).toBe(later);
    checkOut('last');
    lock(handleOf(process.pid)?.began);
    expect(command({ DATA_DIR: join(root, 'other') }).stdout).toBe('the code of the last version\n');
    rmSync(join(root, 'dist'), { recursive: true });
    expect(command().stdout).toBe('the code of the last version\n');
  });
});
