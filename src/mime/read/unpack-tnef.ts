import { closeSync, fstatSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import libmime from 'libmime';
import type { Part } from './part.ts';
import type { PartLimits } from './read-parts.ts';
import { type RandomAccess, readTnef, type TnefFile } from './tnef.ts';

const PIECE = 256 * 1024;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,100}\/[a-z0-9!#$&^_.+-]{1,100}$/;

/**
 * The parts of a message with those of its winmail.dat (application/ms-tnef) in its place, as Outlook sends files to readers
 * that it takes for its like. It stays beside them where it holds what is no file, and alone where it cannot be read.
 * @throws when a file cannot be read or written
 */
export function unpackTnef(parts: readonly Part[], limits: Pick<PartLimits, 'spillDir' | 'isTimeUp'>): Part[] {
  return parts.flatMap((part, index) => (isTnef(part) ? opened(part, index, limits) : [part]));
}

/** Whether a part is a winmail.dat. */
export function isTnef({ role, mime, filename, size }: Part): boolean {
  if (role !== 'file' || size === 0) return false;
  return /^application\/(vnd\.)?ms-tnef$/.test(mime) || /^winmail\.dat$/i.test(filename ?? '');
}

function opened(part: Part, index: number, limits: Pick<PartLimits, 'spillDir' | 'isTimeUp'>): Part[] {
  if (limits.isTimeUp()) return [part];
  if (Buffer.isBuffer(part.content)) {
    const { content } = part;
    const read = (at: number, length: number) => content.subarray(at, at + length);
    const found = readTnef({ size: content.length, read });
    const inside = found?.files.map((file) => asPart(part, file, Buffer.from(read(file.at, file.size)))) ?? [];
    return withRest(part, inside, found?.hasMore);
  }
  const file = openSync(part.content.path, 'r');
  try {
    const source = accessTo(file);
    const found = readTnef(source);
    const inside: Part[] = [];
    for (const [number, each] of (found?.files ?? []).entries()) {
      const path = join(limits.spillDir, `tnef-${index}-${number}`);
      if (!copy(source, each, path, limits)) return [part];
      inside.push(asPart(part, each, { path }));
    }
    return withRest(part, inside, found?.hasMore);
  } finally {
    closeSync(file);
  }
}

function withRest(part: Part, inside: Part[], hasMore = false): Part[] {
  return inside.length === 0 || hasMore ? [...inside, part] : inside;
}

function accessTo(file: number): RandomAccess {
  const read = (at: number, length: number): Buffer => {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, at));
  };
  return { size: fstatSync(file).size, read };
}

/** Copies a file out of the TNEF; false: the time is up. */
function copy(
  source: RandomAccess,
  { at, size }: TnefFile,
  path: string,
  { spillDir, isTimeUp }: Pick<PartLimits, 'spillDir' | 'isTimeUp'>,
): boolean {
  mkdirSync(spillDir, { recursive: true, mode: 0o700 });
  const out = openSync(path, 'w', 0o600);
  try {
    for (let done = 0; done < size; done += PIECE) {
      if (isTimeUp()) return false;
      writeSync(out, source.read(at + done, Math.min(PIECE, size - done)));
    }
    return true;
  } finally {
    closeSync(out);
  }
}

function asPart(part: Part, file: TnefFile, content: Part['content']): Part {
  const declared = file.mime?.toLowerCase() ?? '';
  const ofName = file.name === null ? null : libmime.detectMimeType(file.name);
  return {
    ...part,
    mime: MEDIA_TYPE.test(declared) ? declared : ofName || 'application/octet-stream',
    declared: '',
    charset: null,
    disposition: 'attachment',
    encoding: 'identity',
    inAlternative: false,
    filename: file.name,
    cid: file.cid?.replace(/^<|>$/g, '') || null,
    inRelated: false,
    size: file.size,
    content,
  };
}
