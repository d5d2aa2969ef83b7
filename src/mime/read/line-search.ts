/* Where lines begin and end in the bytes of a message; for structure.ts. */

const DASHES = Buffer.from('\n--');
/** Fields that do not begin a line of text: lines before such a field belong to the header. */
const KNOWN_FIELD =
  /^(from|to|cc|subject|date|message-id|mime-version|content-[\w-]+|received|return-path|reply-to|references|in-reply-to|dkim-signature|x-[\w-]+)[ \t]*:/i;

/** The line that begins at `at`, and where the next one begins; null when its end has not been read yet. */
export function lineAt(data: Buffer, at: number, isLast: boolean): { text: string; end: number } | null {
  const newline = data.indexOf(0x0a, at);
  if (newline < 0 && (!isLast || at >= data.length)) return null;
  const end = newline < 0 ? data.length : newline;
  const hasReturn = end > at && data[end - 1] === 0x0d;
  return { text: data.toString('latin1', at, hasReturn ? end - 1 : end), end: newline < 0 ? end : newline + 1 };
}

/** Where the next line that begins with two dashes begins; -1 without one. */
export function after(data: Buffer, at: number): number {
  const found = data.indexOf(DASHES, at);
  return found < 0 ? -1 : found + 1;
}

/** The end of the content before a delimiter, which includes the line break before it. */
export function beforeBreak(data: Buffer, start: number, at: number): number {
  if (start <= at || data[start - 1] !== 0x0a) return start;
  return start - 1 > at && data[start - 2] === 0x0d ? start - 2 : start - 1;
}

/** The end of what is certainly content: a line break, and a dash after it, may belong to a delimiter. */
export function heldBack(data: Buffer, at: number, isFresh: boolean): number {
  const last = data[data.length - 1];
  if (last === 0x2d && data.length - 1 === at && isFresh) return at;
  if (last === 0x2d && data[data.length - 2] === 0x0a) return beforeBreak(data, data.length - 1, at);
  if (last === 0x0a) return beforeBreak(data, data.length, at);
  return last === 0x0d ? data.length - 1 : data.length;
}

const MAX_STRAY = 8 * 1024;
const MAX_STRAY_LINES = 50;

/**
 * Where a known field precedes the next empty line: the header continues after an invalid line. -1: nowhere. In a part, a line
 * that may be a delimiter ends the search as well: the field behind it is of another part.
 */
export function nextKnownField(data: Buffer, from: number, isPart: boolean): number {
  const near = data.subarray(from, from + MAX_STRAY);
  let at = 0;
  for (let count = 0; count < MAX_STRAY_LINES; count++) {
    const line = lineAt(near, at, true);
    if (line === null || line.text === '' || (isPart && line.text.startsWith('--'))) return -1;
    if (KNOWN_FIELD.test(line.text)) return from + at;
    at = line.end;
  }
  return -1;
}
