import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join, normalize, sep } from 'node:path';
import { PassThrough, Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { extract, pack } from 'tar-stream';
import { StartFailure } from '../failure.ts';

/** A gzipped tar file that is being written. */
export interface ArchiveWriter {
  text(name: string, content: string): Promise<void>;
  /**
   * Everything below a folder, but what `skips` (paths from the folder) names. Files that vanish are left out; one that changes while
   * it is read has the size that it had first.
   */
  folder(name: string, path: string, skips?: (path: string) => boolean): Promise<void>;
  /** One file; false when it does not exist. */
  file(name: string, path: string): Promise<boolean>;
}

/**
 * Writes an archive to a new file that only this user can read; it has another name until it is complete.
 * @throws StartFailure when the file exists or cannot be made; or when the signal aborts
 */
export async function writeArchive(
  path: string,
  signal: AbortSignal,
  write: (archive: ArchiveWriter) => Promise<void>,
): Promise<void> {
  const part = `${path}.part`;
  if (existsSync(path)) throw new StartFailure(`${path} exists already: name another file.`);
  const file = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new StartFailure(
      error.code === 'EEXIST'
        ? `${part} exists already: delete it if no backup is running, or name another file.`
        : `${path} cannot be written (${error.code ?? 'unknown error'}): name another file.`,
    );
  });
  const tar = pack();
  // mail compresses at the fastest level almost as well
  const written = pipeline(tar, createGzip({ level: 1 }), file.createWriteStream({ flush: true }), { signal });
  const work = write({
    text: (name, content) => add(tar, name, Readable.from([Buffer.from(content)]), Buffer.byteLength(content)),
    file: (name, source) => addFile(tar, name, source),
    folder: (name, source, skips = () => false) => addFolder(tar, { name, source, skips }),
  }).then(() => tar.finalize());
  try {
    // a full disk ends the pipeline while an entry waits for it
    await Promise.race([work, written]);
    await written;
    await rename(part, path);
    await syncFolder(dirname(path));
  } catch (error) {
    tar.destroy();
    await rm(part, { force: true });
    const { code, message } = error as NodeJS.ErrnoException;
    throw code === 'ENOSPC' || code === 'EDQUOT' ? new StartFailure(`${path} cannot be written: ${message}.`) : error;
  } finally {
    written.catch(() => {});
    work.catch(() => {});
  }
}

/** A new or renamed file is in its folder after a power loss, too. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

type Tar = ReturnType<typeof pack>;

interface Folder {
  name: string;
  source: string;
  skips(path: string): boolean;
}

async function addFolder(tar: Tar, folder: Folder, below = ''): Promise<void> {
  const { name, source, skips } = folder;
  const entries = await readdir(join(source, below), { withFileTypes: true }).catch(ignoreMissing);
  if (entries === undefined) return;
  await new Promise<void>((resolve) =>
    tar.entry({ name: `${join(name, below)}/`, type: 'directory', mode: 0o700 }, () => resolve()),
  );
  for (const entry of entries) {
    const path = join(below, entry.name);
    if (skips(path)) continue;
    if (entry.isDirectory()) await addFolder(tar, folder, path);
    else if (entry.isFile()) await addFile(tar, join(name, path), join(source, path));
  }
}

async function addFile(tar: Tar, name: string, source: string): Promise<boolean> {
  const file = await open(source, 'r').catch(ignoreMissing);
  if (file === undefined) return false;
  try {
    const { size } = await file.stat();
    const body = size === 0 ? Readable.from([]) : file.createReadStream({ start: 0, end: size - 1, autoClose: false });
    await add(tar, name, body, size);
    return true;
  } finally {
    await file.close();
  }
}

/** Zeros stand for what a file has lost since its size was read. */
async function add(tar: Tar, name: string, body: Readable, size: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const entry = tar.entry({ name, mode: 0o600, size }, (error) => (error ? reject(error) : resolve()));
    pipeline(body, padTo(size), entry as unknown as Writable).catch(reject);
  });
}

function padTo(size: number): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  return async function* (source) {
    let left = size;
    for await (const part of source) {
      left -= part.length;
      yield part;
    }
    for (; left > 0; left -= Math.min(left, 65_536)) yield Buffer.alloc(Math.min(left, 65_536));
  };
}

/** An entry of an archive that is read: `stream` is its content, which must be read or resumed. */
export interface ArchiveEntry {
  name: string;
  isFolder: boolean;
  stream: Readable;
}

/**
 * Hands over the entries of an archive, one after another.
 * @throws StartFailure when it is missing, cut off or no archive, or when an entry cannot be written; or when the signal aborts
 */
export async function readArchive(
  path: string,
  signal: AbortSignal,
  use: (entry: ArchiveEntry) => Promise<unknown>,
): Promise<void> {
  const tar = extract();
  let using: Promise<unknown> = Promise.resolve();
  const used = useEntries(tar, (entry) => (using = use(entry)));
  // the iterator of an archive that is cut off may never end, so the reading is waited for too
  const read = pipeline(createReadStream(path), createGunzip(), tar, { signal });
  try {
    await Promise.race([used, read]);
    await Promise.all([used, read]);
  } catch (error) {
    tar.destroy();
    // what it writes is removed next
    await using.catch(() => {});
    throw failureOf(path, error);
  } finally {
    used.catch(() => {});
    read.catch(() => {});
  }
}

async function useEntries(tar: ReturnType<typeof extract>, use: (entry: ArchiveEntry) => Promise<unknown>) {
  for await (const entry of tar) {
    const { name, type } = entry.header;
    // readers of an entry that is destroyed may wait for ever; those of a stream of Node.js get the error
    const stream = new PassThrough();
    pipeline(entry as unknown as Readable, stream).catch(() => {});
    await use({ name, isFolder: type === 'directory', stream });
  }
}

/** What names a system call is of the disk; all else is of the archive. */
function failureOf(path: string, error: unknown): StartFailure {
  if (error instanceof StartFailure) return error;
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (syscall === 'open' && code === 'ENOENT') return new StartFailure(`${path} cannot be read (${code}).`);
  if (syscall !== undefined) return new StartFailure(`${path} cannot be unpacked: ${message}.`);
  return new StartFailure(`${path} is damaged or not a backup (${message}).`);
}

/** Writes an entry of `readArchive` below a folder; its name without the first segment is the path there. */
export async function extractEntry({ name, isFolder, stream }: ArchiveEntry, root: string): Promise<string> {
  const relative = normalize(name.slice(name.indexOf('/') + 1));
  if (relative.startsWith('..') || relative.startsWith(sep)) throw new StartFailure(`the backup names ${name}.`);
  const path = join(root, relative);
  await mkdir(isFolder ? path : dirname(path), { recursive: true, mode: 0o700 });
  if (isFolder) stream.resume();
  else await pipeline(stream, createWriteStream(path, { mode: 0o600, flush: true }));
  return path;
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
