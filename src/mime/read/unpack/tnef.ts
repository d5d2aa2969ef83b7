import { closeSync, fstatSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import libmime from 'libmime';
import { type RandomAccess, readTnef, type TnefContents, type TnefFile } from '../../tnef/index.ts';
import type { Part } from '../part.ts';

const PIECE = 256 * 1024;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,100}\/[a-z0-9!#$&^_.+-]{1,100}$/;

/** Parts of a mail at most, including unpacked files. */
export const MAX_PARTS = 1000;

export interface UnpackLimits {
  /** called periodically; true: stop unpacking */
  isTimeUp: () => boolean;
  /** folder for files that are not held in memory, created when needed */
  spillDir: string;
}

/**
 * Replaces a winmail.dat (application/ms-tnef), in which Outlook sends files, by its files. It also stays when it contains
 * more than files, and stays alone when it cannot be read or its files exceed MAX_PARTS. Its text becomes the mail's if the
 * mail has none.
 * @throws when a file cannot be read or written
 */
export function unpackTnef(parts: readonly Part[], limits: UnpackLimits): Part[] {
  let room = MAX_PARTS - parts.length;
  let hasText = parts.some(isText);
  return parts.flatMap((part, index) => {
    if (!isTnef(part)) return [part];
    const found = opened(part, { index, room, hasText }, limits);
    room -= found.length - 1;
    hasText ||= found.some(isText);
    return found;
  });
}

/** Whether a part is a winmail.dat. */
export function isTnef({ role, mime, filename, size }: Part): boolean {
  if (role !== 'file' || size === 0) return false;
  return /^application\/(vnd\.)?ms-tnef$/.test(mime) || /^winmail\.dat$/i.test(filename ?? '');
}

function isText({ role, content }: Part): boolean {
  return role !== 'file' && Buffer.isBuffer(content) && content.some((byte) => byte > 0x20);
}

/** The context of a winmail.dat in its mail. */
interface Place {
  index: number;
  /** further files that the mail may have */
  room: number;
  /** the mail has a text outside of the winmail.dat */
  hasText: boolean;
}

function opened(part: Part, place: Place, limits: UnpackLimits): Part[] {
  if (limits.isTimeUp()) return [part];
  if (Buffer.isBuffer(part.content)) {
    const { content } = part;
    const read = (at: number, length: number) => content.subarray(at, at + length);
    return unpacked(part, { ...place, source: { size: content.length, read } }, limits);
  }
  const file = openSync(part.content.path, 'r');
  try {
    return unpacked(part, { ...place, source: accessTo(file) }, limits);
  } finally {
    closeSync(file);
  }
}

function unpacked(part: Part, place: Place & { source: RandomAccess }, limits: UnpackLimits): Part[] {
  const { source, index, room, hasText } = place;
  const found = readTnef(source, { maxFiles: room, isTimeUp: limits.isTimeUp });
  if (!found) return [part];
  const inside: Part[] = [];
  for (const [number, file] of found.files.entries()) {
    if (limits.isTimeUp()) return [part];
    const path = join(limits.spillDir, `tnef-${index}-${number}`);
    const isHeld = Buffer.isBuffer(part.content);
    if (!isHeld && !copy(source, file, path, limits)) return [part];
    inside.push(filePart(part, file, isHeld ? Buffer.from(source.read(file.at, file.size)) : { path }));
  }
  const keepsText = found.hasText && !hasText;
  const text = keepsText && inside.length < room ? textOf(part, found) : [];
  return [...text, ...inside, ...(inside.length === 0 || found.hasMore || keepsText ? [part] : [])];
}

/** The plain text of a TNEF as a part of the mail. */
function textOf(part: Part, { text }: TnefContents): Part[] {
  if (text === null) return [];
  const content = Buffer.from(text);
  const file = { name: null, mime: 'text/plain', cid: null, size: content.length };
  return [{ ...filePart(part, file, content), role: 'plain', charset: 'utf-8', disposition: null }];
}

function accessTo(file: number): RandomAccess {
  const read = (at: number, length: number): Buffer => {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, at));
  };
  return { size: fstatSync(file).size, read };
}

/** Copies a file from the TNEF; false: the time is up. */
function copy(
  source: RandomAccess,
  { at, size }: TnefFile,
  path: string,
  { spillDir, isTimeUp }: UnpackLimits,
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

/** A part of the mail for a file that another part holds. */
export function filePart(part: Part, file: Omit<TnefFile, 'at'>, content: Part['content']): Part {
  const declared = file.mime?.toLowerCase() ?? '';
  const ofName = file.name === null ? null : libmime.detectMimeType(file.name);
  return {
    ...part,
    mime: MEDIA_TYPE.test(declared) ? declared : ofName || 'application/octet-stream',
    declared: '',
    charset: null,
    disposition: 'attachment',
    encoding: 'identity',
    flowed: false,
    branches: new Map(),
    filename: file.name,
    cid: file.cid?.replace(/^<|>$/g, '') || null,
    inRelated: false,
    size: file.size,
    content,
  };
}
