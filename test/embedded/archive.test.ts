import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { extractEntry, readArchive, writeArchive } from '../../src/embedded/backup/archive.ts';
import { StartFailure } from '../../src/embedded/failure.ts';

let dir: string;
let whole: Buffer;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'archive-'));
  const path = join(dir, 'whole.tar.gz');
  const source = join(dir, 'random');
  // bytes that do not compress, in entries larger and smaller than what a stream holds
  await writeFile(source, randomBytes(200_000));
  await writeArchive(path, new AbortController().signal, async (archive) => {
    await archive.text('manifest.json', '{}');
    await archive.file('files/1', source);
    await archive.text('files/2', randomBytes(3_000).toString('base64'));
    await archive.file('files/3', source);
    await archive.text('files/4', '');
  });
  whole = await readFile(path);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Unpacks as a restore does; the names of what was read. */
async function unpack(path: string): Promise<string[]> {
  const names: string[] = [];
  await readArchive(path, new AbortController().signal, async (entry) => {
    if (names.length === 0) await text(entry.stream);
    else await extractEntry(entry, join(dir, 'unpacked'));
    names.push(entry.name);
  });
  return names;
}

it('reads what was written', async () => {
  expect(await unpack(join(dir, 'whole.tar.gz'))).toEqual([
    'manifest.json',
    'files/1',
    'files/2',
    'files/3',
    'files/4',
  ]);
});

it('says of an archive that is cut off anywhere that it is damaged', async () => {
  const path = join(dir, 'cut.tar.gz');
  const step = Math.ceil(whole.length / 150);
  for (let length = 1; length < whole.length; length += step) {
    await writeFile(path, whole.subarray(0, length));
    const error = await unpack(path).then(
      () => 'no error',
      (error: unknown) => error,
    );
    expect({ length, error }).toEqual({ length, error: expect.any(StartFailure) });
    expect((error as Error).message).toMatch(/is damaged or not a backup/);
  }
}, 60_000);

it('says the same of an archive with a byte that changed', async () => {
  const path = join(dir, 'changed.tar.gz');
  for (let at = 20; at < whole.length; at += Math.ceil(whole.length / 50)) {
    const changed = Buffer.from(whole);
    changed[at] = (changed[at] ?? 0) ^ 0x55;
    await writeFile(path, changed);
    await expect(unpack(path)).rejects.toThrow(/is damaged or not a backup/);
  }
}, 60_000);
