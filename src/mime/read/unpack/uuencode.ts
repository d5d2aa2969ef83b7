import type { Part } from '../part.ts';
import { decoderOf } from '../transfer-decoders.ts';
import { filePart, MAX_PARTS } from './tnef.ts';

/*
 * Files in the text of a mail, as programs without MIME send them: `begin 644 name`, lines of uuencode, `end` (POSIX
 * uuencode).
 */

const BEGIN = /^begin [0-7]{3,4} (\S[^\r\n]{0,254})\r?\n/gm;

/** Moves uuencoded files out of plain texts, in linear time. A block that is broken or does not end stays text. */
export function unpackUuencode(parts: readonly Part[]): Part[] {
  let room = MAX_PARTS - parts.length;
  return parts.flatMap((part) => {
    if (part.role !== 'plain' || !Buffer.isBuffer(part.content) || !part.content.includes('begin ')) return [part];
    const { text, files } = split(part.content.toString('latin1'), room);
    if (files.length === 0) return [part];
    room -= files.length;
    const content = Buffer.from(text, 'latin1');
    return [{ ...part, content, size: content.length }, ...files.map(({ name, block }) => asFile(part, name, block))];
  });
}

function split(source: string, room: number): { text: string; files: { name: string; block: string }[] } {
  const files: { name: string; block: string }[] = [];
  const pieces: string[] = [];
  let at = 0;
  for (const { index, 0: line, 1: name = '' } of source.matchAll(BEGIN)) {
    if (files.length >= room) break;
    const end = index < at ? -1 : endOf(source, index + line.length);
    if (end < 0) continue;
    files.push({ name, block: source.slice(index, end) });
    pieces.push(source.slice(at, index));
    at = end;
  }
  return { text: [...pieces, source.slice(at)].join(''), files };
}

/** Where the line `end` of a block ends; -1 when another line than one of uuencode precedes it. */
function endOf(source: string, start: number): number {
  for (let at = start; at < source.length; ) {
    const next = source.indexOf('\n', at);
    const stop = next < 0 ? source.length : next + 1;
    const line = source.slice(at, Math.min(stop, at + 200)).replace(/\r?\n$/, '');
    if (line === 'end') return stop;
    if (!isData(line)) return -1;
    at = stop;
  }
  return -1;
}

/** Whether a line has the length that its first character gives; blanks at its end may be missing. */
function isData(line: string): boolean {
  if (line === '') return true;
  const bytes = (line.charCodeAt(0) - 0x20) & 0x3f;
  // a checksum may follow
  return /^[ -`]*$/.test(line) && line.length - 1 <= Math.ceil(bytes / 3) * 4 + 1;
}

function asFile(part: Part, name: string, block: string): Part {
  const decoder = decoderOf('uuencode');
  const content = decoder
    ? Buffer.concat([decoder.write(Buffer.from(block, 'latin1')), decoder.end()])
    : Buffer.alloc(0);
  return { ...filePart(part, { name, mime: null, cid: null, size: content.length }, content), role: 'file' };
}
