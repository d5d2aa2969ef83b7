import { htmlToPlain, stripTags, textToHtml } from '../html.ts';
import { storable } from '../../runtime/storable.ts';
import { decodeBytes, isUsefulHint } from './charsets.ts';
import type { Part } from './part.ts';
import type { ReadParts } from './read-parts.ts';
import type { Entity } from './structure.ts';

/** A text of a mail; not blank. */
export interface BodyText {
  isHtml: boolean;
  /** another alternative of a multipart/alternative around it holds a text of the other kind */
  hasOtherKind: boolean;
  text: string;
}

/**
 * The two bodies of a mail. HTML: the HTML part as sent. Several HTML parts, or texts next to one (the footer of a mailing
 * list), are joined. Without HTML: an HTML rendering of the text. Plain: likewise, with text and HTML swapped. Line ends
 * are `\n`. When `isHurried` returns true, HTML is only stripped of its tags.
 */
export function composeBody(read: ReadParts, isHurried: () => boolean): { body: string; bodyPlain: string } {
  const texts = readTexts(read);
  return {
    body: htmlBody(texts),
    bodyPlain: plainBody(texts, (html) => (isHurried() ? stripTags(html) : htmlToPlain(html))),
  };
}

/** Notes for programs without MIME support; never the text of a mail. */
const NOTE =
  /^\s*(this is a (multi-?part|mime)|this message is in mime|if you (see|are reading) this|sorry, your mail)|\bmime\b/i;
/** Content of other kinds than files, which explains what stands before it. */
const CONTENT = /^(text\/|multipart\/|application\/(x-)?(pkcs7|pgp-))/;

/** Charsets named by parts of a mail and applied to its unlabelled parts, at most. */
const MAX_HINTS = 20;

/**
 * The texts of a mail's body, in order. If its parts have none, the text outside of them counts: before the first or after
 * the last.
 */
export function readTexts({ parts, outside, charset }: ReadParts): BodyText[] {
  const hints = [...new Set([...parts.map((part) => part.charset), charset])].slice(0, MAX_HINTS);
  const texts = parts.filter((part) => part.role !== 'file').map((part) => ({ part, text: readText(part, hints) }));
  const filled = texts.filter(({ text }) => /\S/.test(text));
  if (filled.length > 0 || outside.length === 0) return withOtherKinds(filled);
  if (parts.some(({ mime, filename, disposition }) => CONTENT.test(mime) && !filename && disposition !== 'attachment'))
    return [];
  const text = unified(decodeBytes(outside, null, ...hints)).trim();
  return text === '' || NOTE.test(text.slice(0, 400)) ? [] : [{ isHtml: false, hasOtherKind: false, text }];
}

function withOtherKinds(texts: readonly { part: Part; text: string }[]): BodyText[] {
  const holders = { html: new Map<Entity, Set<number>>(), plain: new Map<Entity, Set<number>>() };
  for (const { part } of texts) {
    const holding = part.role === 'html' ? holders.html : holders.plain;
    for (const [multipart, branch] of part.branches)
      holding.set(multipart, (holding.get(multipart) ?? new Set()).add(branch));
  }
  return texts.map(({ part, text }) => {
    const isHtml = part.role === 'html';
    const others = isHtml ? holders.plain : holders.html;
    const isElsewhere = ([multipart, own]: [Entity, number]): boolean => {
      const branches = others.get(multipart);
      return branches !== undefined && (branches.size > 1 || !branches.has(own));
    };
    return { isHtml, hasOtherKind: [...part.branches].some(isElsewhere), text };
  });
}

/** Joins texts into one HTML body, without a plain text that is an alternative of HTML. */
export function htmlBody(texts: readonly BodyText[]): string {
  const html = texts.filter(({ isHtml, hasOtherKind }) => isHtml || !hasOtherKind);
  return html.map(({ isHtml, text }) => (isHtml ? text : textToHtml(text))).join('<br/>\n');
}

/** Joins texts into one plain body, without an HTML that is an alternative of plain text. */
export function plainBody(texts: readonly BodyText[], toPlain: (html: string) => string): string {
  const plain = texts.filter(({ isHtml, hasOtherKind }) => !isHtml || !hasOtherKind);
  return plain.map(({ isHtml, text }) => (isHtml ? toPlain(text) : text)).join('\n');
}

function readText(part: Part, hints: readonly (string | null)[]): string {
  const isHtml = part.role === 'html';
  const bytes = Buffer.isBuffer(part.content) ? part.content : Buffer.alloc(0);
  const own = isHtml ? charsetOfHtml(bytes) : null;
  const text = unified(decodeBytes(bytes, part.charset ?? (isUsefulHint(own) ? own : null), own, ...hints));
  return part.flowed && !isHtml ? decodeFlowed(text, part.deleteSpace) : text;
}

/** The charset in a meta element of HTML, for parts whose header names none. */
function charsetOfHtml(bytes: Buffer): string | null {
  return /<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w:.-]{1,40})/i.exec(bytes.toString('latin1', 0, 4096))?.[1] ?? null;
}

function unified(text: string): string {
  return storable(text.replace(/\r\n?/g, '\n'));
}

/**
 * Text of format=flowed (RFC 3676) without its soft line breaks: a line that ends in a space continues in the next one of
 * the same quote depth. `deleteSpace` is DelSp=yes. Lines end in `\n`. libmime's decoder joins a signature to the text
 * above it if that ends in a space.
 */
export function decodeFlowed(text: string, deleteSpace: boolean): string {
  const lines: string[] = [];
  let paragraph: string[] = [];
  let openDepth: number | null = null;
  const finish = (): void => {
    if (openDepth !== null) lines.push(`${quote(openDepth)}${paragraph.join('')}`);
    paragraph = [];
    openDepth = null;
  };
  for (const line of text.split('\n')) {
    const depth = /^>*/.exec(line)?.[0].length ?? 0;
    const content = line.slice(line[depth] === ' ' ? depth + 1 : depth);
    const isSignature = content === '-- ';
    const isSoft = content.endsWith(' ') && !isSignature;
    if (openDepth !== null && (openDepth !== depth || isSignature)) finish();
    openDepth = depth;
    paragraph.push(isSoft && deleteSpace ? content.slice(0, -1) : content);
    if (!isSoft) finish();
  }
  finish();
  return lines.join('\n');
}

function quote(depth: number): string {
  return depth === 0 ? '' : `${'>'.repeat(depth)} `;
}
