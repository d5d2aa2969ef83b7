/*
 * The message in an opaque-signed S/MIME part (RFC 8551 3.5.2): CMS SignedData (RFC 5652 5), in BER. Signatures are not
 * checked.
 */

/** An element: its content is from `at` to `end`; of one without a length, `end` is where its surroundings end. */
interface Element {
  tag: number;
  at: number;
  end: number;
  isOpen: boolean;
}

const SEQUENCE = 0x30;
const OCTETS = 0x04;
const OCTETS_IN_PIECES = 0x24;
const EXPLICIT = 0xa0;
const SIGNED_DATA = '2a864886f70d010702';
const DATA = '2a864886f70d010701';
const MAX_DEPTH = 20;

/** The bytes of the message that is signed; null: the part is encrypted, compressed or broken. */
export function signedContent(bytes: Buffer): Buffer | null {
  const [info] = childrenOf(bytes, { tag: 0, at: 0, end: bytes.length, isOpen: false }, 1);
  if (info?.tag !== SEQUENCE) return null;
  const [type, explicit] = childrenOf(bytes, info, 2);
  if (!type || hexOf(bytes, type) !== SIGNED_DATA || explicit?.tag !== EXPLICIT) return null;
  const [signed] = childrenOf(bytes, explicit, 1);
  // version, digest algorithms, encapsulated content
  const content = signed && childrenOf(bytes, signed, 3)[2];
  return content ? encapsulated(bytes, content) : null;
}

function encapsulated(bytes: Buffer, content: Element): Buffer | null {
  const [kind, wrapped] = childrenOf(bytes, content, 2);
  if (!kind || hexOf(bytes, kind) !== DATA || wrapped?.tag !== EXPLICIT) return null;
  const [octets] = childrenOf(bytes, wrapped, 1);
  return octets ? octetsOf(bytes, octets) : null;
}

/** The first elements within another, `count` at most. */
function childrenOf(bytes: Buffer, outer: Element, count: number): Element[] {
  const found: Element[] = [];
  let child = elementAt(bytes, outer.at, outer.end);
  while (child && found.push(child) < count) child = next(bytes, child, outer);
  return found;
}

/** The octets of a string, which may come in pieces. */
function octetsOf(bytes: Buffer, string: Element): Buffer | null {
  if (string.tag === OCTETS) return bytes.subarray(string.at, string.end);
  if (string.tag !== OCTETS_IN_PIECES) return null;
  const pieces: Buffer[] = [];
  for (let piece = elementAt(bytes, string.at, string.end); piece?.tag === OCTETS; piece = next(bytes, piece, string)) {
    pieces.push(bytes.subarray(piece.at, piece.end));
  }
  return pieces.length === 0 ? null : Buffer.concat(pieces);
}

const hexOf = (bytes: Buffer, { at, end }: Element): string => bytes.toString('hex', at, Math.min(end, at + 20));

/** The element behind another. */
function next(bytes: Buffer, before: Element, outer: Element): Element | null {
  const at = endOf(bytes, before, 0);
  return at < 0 || at >= outer.end ? null : elementAt(bytes, at, outer.end);
}

/** Where an element ends, with the mark that ends one without a length; -1: it is broken. */
function endOf(bytes: Buffer, element: Element, depth: number): number {
  if (!element.isOpen) return element.end;
  if (depth > MAX_DEPTH) return -1;
  let { at } = element;
  for (;;) {
    if (bytes[at] === 0 && bytes[at + 1] === 0) return at + 2;
    const child = elementAt(bytes, at, element.end);
    at = child ? endOf(bytes, child, depth + 1) : -1;
    if (at < 0) return -1;
  }
}

/** The element at a place; null when it does not fit. Tags have one byte here. */
function elementAt(bytes: Buffer, at: number, limit: number): Element | null {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined || at + 2 > limit || (tag & 0x1f) === 0x1f) return null;
  if (first === 0x80) return (tag & 0x20) === 0 ? null : { tag, at: at + 2, end: limit, isOpen: true };
  if (first < 0x80) return at + 2 + first > limit ? null : { tag, at: at + 2, end: at + 2 + first, isOpen: false };
  const count = first & 0x7f;
  if (count > 4 || at + 2 + count > limit) return null;
  const start = at + 2 + count;
  const end = start + bytes.readUIntBE(at + 2, count);
  return end > limit ? null : { tag, at: start, end, isOpen: false };
}
