import libmime from 'libmime';
import { decodeHeaderBytes } from './charsets.ts';
import { replaceEncodedWords } from './encoded-words.ts';
import type { TransferEncoding } from './field-value.ts';
import type { Entity } from './structure.ts';

/** A leaf of the MIME tree (RFC 2045, 2046), its content decoded. Embedded messages are leaves. */
export interface Part {
  /** body text or a file */
  role: 'plain' | 'html' | 'file';
  mime: string;
  /** Content-Type as written, with its parameters; '' when missing */
  declared: string;
  charset: string | null;
  /** RFC 3676 */
  flowed: boolean;
  deleteSpace: boolean;
  disposition: string | null;
  encoding: TransferEncoding;
  /** each multipart/alternative around it, with the number of the alternative that it is in */
  branches: ReadonlyMap<Entity, number>;
  filename: string | null;
  /** Content-ID without its angle brackets */
  cid: string | null;
  /** Content-Location (RFC 2557): the reference by which HTML shows it, too */
  location: string | null;
  /** has a cid and is in a multipart/related */
  inRelated: boolean;
  /** its multipart, and the multipart/alternative that it belongs to */
  container: Entity | null;
  alternatives: Entity | null;
  size: number;
  content: Buffer | { path: string };
}

/** Texts that are shown when a mail has no other: unknown text types are read as plain text (RFC 2046 4.1.4). */
const TEXT_LIKE = /^text\/(markdown|x-markdown|enriched|richtext)$/;

/** A token (RFC 2045 5.1); other values are ignored. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;

/** Programs write the name of an encoding into the wrong field. */
const ENCODING = /^(quoted-printable|base64|7bit|8bit|binary)$/i;

/** Describes a leaf from its header. `before`: the parts before it; `hint`: the charset of raw 8-bit values. */
export function describePart(leaf: Entity, before: readonly Part[], hint: string | null): Part {
  const { type, disposition: given, fields } = leaf;
  const isOwn = TOKEN.test(given.value) && !given.value.startsWith('=?') && !ENCODING.test(given.value);
  const disposition = isOwn ? given.value : null;
  const isRaw = fields.some(({ key, raw }) => /^content-(type|disposition)$/.test(key) && /[\x80-\xff]/.test(raw));
  const toName = (value: string | undefined) => readName(value, isRaw ? hint : undefined);
  const filename = toName(given.params['filename']) ?? toName(type.params['name']);
  const mime = mimeOf(leaf, filename);
  const rawOf = (name: string): string => fields.find(({ key }) => key === name)?.raw ?? '';
  const cid = contentIdOf(decodeHeaderBytes(rawOf('content-id'), hint));
  const alternatives = alternativesOf(leaf);
  const part: Part = {
    role: 'file',
    mime,
    declared: leaf.declared,
    charset: type.params['charset'] || null,
    flowed: /^\s*flowed\s*$/i.test(type.params['format'] ?? ''),
    deleteSpace: /^\s*yes\s*$/i.test(type.params['delsp'] ?? ''),
    disposition,
    encoding: leaf.encoding,
    branches: branchesOf(leaf),
    filename,
    cid,
    location: decodeHeaderBytes(rawOf('content-location'), hint).replace(/[\s"]+/g, '') || null,
    inRelated: cid !== null && isWithin(leaf, 'multipart/related'),
    container: leaf.parent,
    alternatives,
    size: 0,
    content: Buffer.alloc(0),
  };
  return { ...part, role: roleOf(part, leaf, before) };
}

/**
 * Body text or a file. A named text after a body is a file, as Apple Mail sends text files, unless it is the only one of
 * its kind among alternatives: some programs name the bodies.
 */
function roleOf(part: Part, leaf: Entity, before: readonly Part[]): Part['role'] {
  const { mime, disposition, filename } = part;
  const isBytes = leaf.type.value === 'application/octet-stream';
  if (isBytes || (disposition !== null && disposition !== 'inline')) return 'file';
  if (leaf.parent === null && filename === null && TEXT_LIKE.test(mime)) return 'plain';
  if (mime !== 'text/plain' && mime !== 'text/html') return 'file';
  const role = mime === 'text/html' ? 'html' : 'plain';
  if (filename === null) return role;
  const bodies = before.filter((other) => other.role !== 'file');
  const isAlternative =
    part.alternatives !== null &&
    !bodies.some((other) => other.alternatives === part.alternatives && other.role === role);
  return isAlternative || bodies.length === 0 ? role : 'file';
}

/**
 * Corrects roles once all parts are known: a named text before an unnamed body of the same multipart is a file. (Its
 * content was stored as that of a body.)
 */
export function settleRoles(parts: readonly Part[]): void {
  for (const [index, part] of parts.entries()) {
    if (part.role === 'file' || part.filename === null || part.container === null || part.alternatives) continue;
    const follows = parts
      .slice(index + 1)
      .some((other) => other.role !== 'file' && other.filename === null && other.container === part.container);
    if (follows) part.role = 'file';
  }
}

/**
 * The multipart/alternative of a leaf: the leaf is its child, or the first part of a child, as the root of a
 * multipart/related is (RFC 2387).
 */
function alternativesOf(leaf: Entity): Entity | null {
  for (let entity = leaf; entity.parent !== null; entity = entity.parent) {
    if (entity.parent.type.value === 'multipart/alternative') return entity.parent;
    if (entity.index > 0) return null;
  }
  return null;
}

function branchesOf(leaf: Entity): Map<Entity, number> {
  const found = new Map<Entity, number>();
  for (let entity = leaf; entity.parent !== null; entity = entity.parent)
    if (entity.parent.type.value === 'multipart/alternative') found.set(entity.parent, entity.index);
  return found;
}

function isWithin(leaf: Entity, type: string): boolean {
  for (let entity = leaf.parent; entity !== null; entity = entity.parent) if (entity.type.value === type) return true;
  return false;
}

/** A file name with its encoded words decoded; with a hint, also its raw bytes. */
function readName(value: string | undefined, hint?: string | null): string | null {
  const decoded = (bytes: string): string => (hint === undefined ? bytes : decodeHeaderBytes(bytes, hint));
  const text = replaceEncodedWords(value ?? '', (words) => words, decoded);
  return text.trim() === '' ? null : text;
}

function contentIdOf(value: string): string | null {
  return value.trim().replace(/^<|>$/g, '').trim() || null;
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,100}\/[a-z0-9!#$&^_.+-]{1,100}$/;

/**
 * The media type of a part: an invalid Content-Type counts as text (RFC 2045 5.2) or as bytes; parts of a digest are
 * messages; the name of a file replaces a type without information.
 */
function mimeOf({ parent, declared, type, disposition }: Entity, filename: string | null): string {
  if (declared === '' && parent?.type.value === 'multipart/digest') return 'message/rfc822';
  const isValid = MEDIA_TYPE.test(type.value);
  if (isValid && type.value !== 'application/octet-stream') return type.value;
  const ofName = filename === null ? null : libmime.detectMimeType(filename);
  if (ofName) return ofName;
  return isValid || disposition.value === 'attachment' ? 'application/octet-stream' : 'text/plain';
}
