import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openDataDir } from '../../src/embedded/data-dir.ts';
import { isRunning, handleOf } from '../../src/runtime/process-handle.ts';
import { openLog } from '../../src/embedded/log-file.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { builtEntry } from '../helpers/product/built.ts';
import { freePort } from '../helpers/servers/free-port.ts';

describe('the data folder', () => {
  let dir: string;
  const lines: string[] = [];
  const open = () => openDataDir(join(dir, 'data'), (line) => lines.push(line));
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'data-dir-'));
  });
  afterEach(() => rm(dir, { recursive: true }));

  it('is locked by one start at a time', async () => {
    const first = await open();
    await expect(open()).rejects.toThrow(
      new RegExp(`^DATA_DIR .* is in use by the start with pid ${process.pid}: [^\\n]+$`),
    );
    first.release();
    (await open()).release();
  });

  it('is taken over from a start that died, also when its pid was given to another process', async () => {
    const first = await open();
    first.release();
    await writeFile(join(dir, 'data', 'lock'), JSON.stringify({ pid: process.pid, began: 'long ago' }));
    (await open()).release();
    await writeFile(join(dir, 'data', 'lock'), 'half a li');
    (await open()).release();
  });

  it('creates secrets once, readable by the owner only', async () => {
    const data = await open();
    expect(data.existingSecret('key')).toBeUndefined();
    expect(data.secret('key', () => 'first')).toBe('first');
    expect(data.secret('key', () => 'second')).toBe('first');
    expect(data.existingSecret('key')).toBe('first');
    expect((await stat(join(dir, 'data', 'key'))).mode & 0o777).toBe(0o600);
    expect([data.isFirst('shown'), data.isFirst('shown')]).toEqual([true, false]);
    data.release();
  });

  it('has generated keys on the disk before anything uses them', async () => {
    const path = join(dir, 'data');
    const hook = `
      import fs from 'node:fs';
      import { basename } from 'node:path';
      import { syncBuiltinESMExports } from 'node:module';
      const calls = [];
      const { writeFileSync, renameSync, openSync, fsyncSync } = fs;
      fs.writeFileSync = (file, content, options) => {
        if (/bootstrap-api-key/.test(file)) process.exit(console.log(JSON.stringify(calls)));
        if (/encryption-key/.test(file)) calls.push('write ' + basename(file) + (options.flush ? ' and flush' : ''));
        return writeFileSync(file, content, options);
      };
      fs.renameSync = (from, to) => {
        if (/encryption-key/.test(to)) calls.push('rename to ' + basename(to));
        return renameSync(from, to);
      };
      const opened = {};
      fs.openSync = (file, ...rest) => {
        const fd = openSync(file, ...rest);
        opened[fd] = file;
        return fd;
      };
      fs.fsyncSync = (fd) => {
        // some versions of Node.js flush a file by this function
        if (!opened[fd].endsWith('.new')) calls.push('sync ' + basename(opened[fd]));
        return fsyncSync(fd);
      };
      syncBuiltinESMExports();`;
    const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', preload, builtEntry('start')], {
      env: { PATH: process.env['PATH'], DATA_DIR: path, PORT: String(await freePort()) },
    });
    expect(JSON.parse(stdout)).toEqual(['write encryption-key.new and flush', 'rename to encryption-key', 'sync data']);
  }, 30_000);

  it('ends the processes that an earlier start left running, and no others', async () => {
    const left = spawn('sleep', ['60']);
    const other = spawn('sleep', ['60']);
    const [handle, otherHandle] = [handleOf(left.pid!)!, handleOf(other.pid!)!];
    const first = await open();
    first.recordProcesses([handle, { pid: otherHandle.pid, began: 'at another time' }]);
    await rm(join(dir, 'data', 'lock'));
    (await open()).release();
    expect([isRunning(handle), isRunning(otherHandle)]).toEqual([false, true]);
    other.kill();
    await waitFor(() => !isRunning(otherHandle));
    expect(await readdir(join(dir, 'data'))).toEqual([]);
  });

  it.each(['ENOSPC', 'EDQUOT'])(
    'says that its disk is full (%s), and leaves nothing there',
    async (code) => {
      const hook = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const { writeFileSync } = fs;
      fs.writeFileSync = (file, ...rest) => {
        if (!/lock/.test(file)) return writeFileSync(file, ...rest);
        writeFileSync(file, '');
        throw Object.assign(new Error('no space'), { code: '${code}' });
      };
      syncBuiltinESMExports();`;
      const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
      const path = join(dir, 'data');
      const start = promisify(execFile)(process.execPath, ['--import', preload, builtEntry('start')], {
        env: { PATH: process.env['PATH'], DATA_DIR: path },
      });
      await expect(start).rejects.toMatchObject({
        code: 1,
        stdout: `the disk of DATA_DIR ${path} is full (${code}): free some space.\n`,
      });
      expect(await readdir(path)).toEqual([]);
    },
    30_000,
  );

  it('reports in one line when it cannot be used', async () => {
    await writeFile(join(dir, 'data'), 'a file');
    await expect(open()).rejects.toThrow(/^DATA_DIR \S+ cannot be used \(\w+\): [^\n]+$/);
  });
});

describe('a log file', () => {
  it('keeps one older file when it has grown', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'log-'));
    const log = openLog(dir, 'x', 100);
    for (let i = 0; i < 10; i++) log.write(Buffer.alloc(60, 'a'));
    log.close();
    log.write(Buffer.from('after the end'));
    const sizes = await Promise.all(['x.log', 'x.log.1'].map(async (name) => (await stat(join(dir, name))).size));
    expect(await readdir(dir)).toHaveLength(2);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(160);
    await rm(dir, { recursive: true });
  });
});
