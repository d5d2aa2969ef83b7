import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { inTempFolder, openTempDir, removeLeftOvers } from '../../src/runtime/temp-dir.ts';

let parent: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  parent = join(await mkdtemp(join(tmpdir(), 'temp-dir-')), 'tmp');
});

afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
  await rm(join(parent, '..'), { recursive: true, force: true });
});

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** A process that has opened its temporary folder and written a message into it. */
async function otherProcess(): Promise<{ child: ChildProcess; mail: string }> {
  const module = new URL('../../src/runtime/temp-dir.ts', import.meta.url).href;
  const script = `
    const { openTempDir } = await import(${JSON.stringify(module)});
    process.stdout.write(openTempDir(${JSON.stringify(parent)}));
    setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [printed] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  const folder = join(printed.toString(), 'mail-1');
  await mkdir(folder);
  await writeFile(join(folder, 'source'), 'Subject: plain text');
  return { child, mail: join(folder, 'source') };
}

test('the folder of a killed process is removed when another starts, that of a live one stays', async () => {
  const [dead, living] = [await otherProcess(), await otherProcess()];
  await kill(dead.child);
  expect(existsSync(dead.mail)).toBe(true);
  const own = openTempDir(parent);
  expect([dead.mail, living.mail, own].map((path) => existsSync(path))).toEqual([false, true, true]);
  expect(await readdir(parent)).toHaveLength(2);
  expect((await stat(own)).mode & 0o777).toBe(0o700);
}, 60_000);

test('a running process removes the folders of dead ones', async () => {
  const own = openTempDir(parent);
  const [dead, living] = [await otherProcess(), await otherProcess()];
  await kill(dead.child);
  removeLeftOvers(parent);
  expect([dead.mail, living.mail, own].map((path) => existsSync(path))).toEqual([false, true, true]);
}, 60_000);

test('a process opens a new folder each time', () => {
  const [first, second] = [openTempDir(parent), openTempDir(parent)];
  expect(first).not.toBe(second);
  expect([first, second].every((path) => existsSync(path))).toBe(true);
});

test('the folder of another machine is removed after a day without a change; other files stay', async () => {
  const names = ['other.host~7~12345~', 'third.host~7~12345~'].map((name) => `${name}${'0'.repeat(36)}`);
  const [old, fresh, foreign] = [...names, 'notes.txt'].map((name) => join(parent, name)) as [string, string, string];
  for (const path of [old, fresh, foreign]) await mkdir(path, { recursive: true });
  const longAgo = new Date(Date.now() - 25 * 3600 * 1000);
  for (const path of [old, foreign]) await utimes(path, longAgo, longAgo);
  await mkdir(join(fresh, 'mail-1'));
  await utimes(fresh, longAgo, longAgo);
  openTempDir(parent);
  expect([old, fresh, foreign].map((path) => existsSync(path))).toEqual([false, true, true]);
});

test('a folder for one piece of work is removed with its contents, even when the work fails', async () => {
  const tempDir = openTempDir(parent);
  const work = inTempFolder(tempDir, async (folder) => {
    await writeFile(join(folder, 'source'), 'x');
    throw new Error('the connection was lost');
  });
  await expect(work).rejects.toThrow('the connection was lost');
  expect(await readdir(tempDir)).toEqual([]);
  expect(await inTempFolder(tempDir, async (folder) => existsSync(folder))).toBe(true);
});
