import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, rmdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openLog } from '../../src/embedded/log-file.ts';
import { run } from '../helpers/product/child.ts';

const require = createRequire(import.meta.url);
const LOG_FILE = new URL('../../src/embedded/log-file.ts', import.meta.url).href;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'log-file-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const text = (name: string) => readFileSync(join(dir, name), 'utf8');

it('a full log becomes the previous one, and a new one begins', () => {
  const log = openLog(dir, 'part', 5);
  for (const line of ['first ', 'second ', 'third ']) log.write(Buffer.from(line));
  log.close();
  expect([text('part.log.1'), text('part.log')]).toEqual(['second ', 'third ']);
});

it('a log whose rotation fails is written on, and rotates when it can', () => {
  const log = openLog(dir, 'part', 5);
  log.write(Buffer.from('first '));
  // a folder of that name: the rename fails
  mkdirSync(join(dir, 'part.log.1'));
  log.write(Buffer.from('second '));
  expect(text('part.log')).toBe('first second ');
  rmdirSync(join(dir, 'part.log.1'));
  log.write(Buffer.from('third '));
  expect([text('part.log.1'), text('part.log')]).toEqual(['first second ', 'third ']);
  log.close();
});

it('a log that could not open its next file for lack of descriptors is written on, and closes no file of another', async () => {
  const script = `
    import { closeSync, fstatSync, openSync } from 'node:fs';
    const { openLog } = await import(${JSON.stringify(LOG_FILE)});
    const log = openLog(${JSON.stringify(dir)}, 'part', 5);
    log.write(Buffer.from('first '));
    const others = [];
    try { for (;;) others.push(openSync('/dev/null')); } catch (error) { console.log(error.code); }
    log.write(Buffer.from('second '));
    const freed = others.splice(0, 2);
    freed.forEach((each) => closeSync(each));
    // takes a number that was freed
    others.push(openSync('/dev/null'));
    log.write(Buffer.from('third '));
    log.close();
    others.forEach((each) => fstatSync(each));`;
  const node = [process.execPath, '--import', pathToFileURL(require.resolve('tsx')).href, '--input-type=module', '-e'];
  const { stdout } = await run('sh', ['-c', 'ulimit -n 200; exec "$@"', 'sh', ...node, script]);
  expect(stdout).toBe('EMFILE\n');
  expect([text('part.log.1'), text('part.log')]).toEqual(['first second ', 'third ']);
});
