import { createHash } from 'node:crypto';
import libmime from 'libmime';
import { storable } from '../../runtime/storable.ts';
import { replaceEncodedWords } from './encoded-words.ts';
import type { ParsedAttachment } from './parsed-mail.ts';
import type { Part } from './part.ts';

const MAX_NAME = 255;
/** File name endings that libmime's table lacks, or better ones. */
const ENDINGS: Record<string, string> = {
  'message/delivery-status': 'txt',
  'message/global-delivery-status': 'txt',
  'message/disposition-notification': 'txt',
  'message/feedback-report': 'txt',
  'text/rfc822-headers': 'txt',
  'message/global': 'eml',
  'message/partial': 'eml',
  'application/ms-tnef': 'dat',
  'application/vnd.ms-tnef': 'dat',
  'application/pgp-signature': 'asc',
  'application/pgp-keys': 'asc',
  'application/pkcs7-signature': 'p7s',
  'application/pkcs7-mime': 'p7m',
  'application/x-pkcs7-mime': 'p7m',
  'text/x-amp-html': 'html',
  'text/markdown': 'md',
  'text/x-markdown': 'md',
};
/** Machine-readable parts of a report (RFC 6522). */
const MACHINE =
  /^(message\/(global-)?delivery-status|message\/(disposition-notification|feedback-report)|text\/rfc822-headers)$/;

/**
 * The files of a mail: every part that is not body text. References in `html`, the HTML body, decide whether an image is
 * shown in it: `cid:`, or its Content-Location (RFC 2557).
 *
 * inline: Content-Disposition says so, or the HTML shows it, or it has no disposition and belongs to the HTML
 * (multipart/related), to the alternatives of the text, or to the machine-readable parts of a report.
 * embedded: inline, and not a file that the reader would miss. Apple Mail and Outlook mark every PDF `inline`, with a
 * Content-ID or without: a named part that the HTML does not show is not embedded, unless it is an image with a Content-ID
 * beside HTML.
 */
export function toAttachments(parts: readonly Part[], html: string): ParsedAttachment[] {
  const files = parts.filter((part) => part.role === 'file');
  const hasHtml = parts.some((part) => part.role === 'html');
  const shown = files.some((part) => part.cid !== null) ? referredCids(html) : new Set<string>();
  const sources = files.some((part) => part.location !== null) ? sourcesIn(html) : new Set<string>();
  return files.map((part, index) => {
    const name = nameOf(part, index + 1);
    const isShown =
      (part.cid !== null && shown.has(part.cid)) || (part.location !== null && sources.has(part.location));
    const belongs = part.disposition === null && belongsToBody(part);
    const inline = part.disposition === 'inline' || isShown || belongs;
    const isPicture = hasHtml && part.cid !== null && part.mime.startsWith('image/');
    return {
      name,
      extension: extensionOf(name),
      size: part.size,
      mime: part.mime,
      cid: part.cid === null ? null : storable(part.cid).slice(0, 998),
      inline,
      embedded: isShown || (inline && (part.filename === null || isPicture || MACHINE.test(part.mime))),
      content: part.content,
    };
  });
}

/**
 * HTML that shows files by their Content-Location, with references by Content-ID instead, and the parts with the Content-IDs
 * that this needs: messages are written with these alone.
 */
export function shownByCid(parts: readonly Part[], html: string): { parts: Part[]; html: string } {
  if (parts.every(({ location }) => location === null)) return { parts: [...parts], html };
  const [sources, referred] = [sourcesIn(html), referredCids(html)];
  const cids = new Map<string, string>();
  const named = parts.map((part) => {
    const { role, location, cid: own } = part;
    if (role !== 'file' || location === null || !sources.has(location)) return part;
    const cid = own !== null && (PLAIN_CID.test(own) || referred.has(own)) ? own : cidOf(location);
    if (!cids.has(location) && PLAIN_CID.test(cid)) cids.set(location, cid);
    return { ...part, cid };
  });
  const withCid = (whole: string, before: string, source: string) => {
    const cid = cids.get(source.replaceAll('&amp;', '&'));
    return cid === undefined ? whole : `${before}cid:${cid}`;
  };
  const changed = html.replace(/<[a-z][^<>]*>/gi, (tag) => tag.replace(SOURCE, withCid));
  return { parts: named, html: changed };
}

/** A Content-ID that HTML can name as it is. */
const PLAIN_CID = /^[\w.@+-]{1,200}$/;

/** A Content-ID that depends on the location alone: equal messages are written with equal bytes. */
function cidOf(location: string): string {
  return `${createHash('sha256').update(location).digest('hex').slice(0, 32)}@location.invalid`;
}

function referredCids(html: string): Set<string> {
  return new Set([...html.matchAll(/\bcid:([^'"\s)>]{1,256})/gi)].map((match) => decodeCid(match[1] ?? '')));
}

/** What an element of HTML loads, and what stands before it. */
const SOURCE = /((?<=[\s"'])(?:src|background)\s{0,9}=\s{0,9}["']?)([^"'\s>]{1,2000})/gi;

function sourcesIn(html: string): Set<string> {
  return new Set([...html.matchAll(SOURCE)].map((match) => (match[2] ?? '').replaceAll('&amp;', '&')));
}

/** The last ending of a file name, in lower case; '' without one. */
export function extensionOf(name: string): string {
  return /[^.]\.([\p{L}\p{N}_+-]{1,16})$/u.exec(name)?.[1]?.toLowerCase() ?? '';
}

/** A file name without path, control characters and direction marks, at most 255 characters; null when nothing is left. */
export function safeFileName(name: string): string | null {
  const text = storable(replaceEncodedWords(name, (text) => text)).replace(
    /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu,
    ' ',
  );
  const last = text.split(/[\\/]/).findLast((piece) => piece.trim() !== '') ?? '';
  const clean = last.replace(/\s+/g, ' ').trim();
  if (/^\.*$/.test(clean)) return null;
  if (clean.length <= MAX_NAME) return clean;
  const ending = extensionOf(clean);
  return storable(ending ? `${clean.slice(0, MAX_NAME - ending.length - 1)}.${ending}` : clean.slice(0, MAX_NAME));
}

function nameOf(part: Part, number: number): string {
  const given = part.filename === null ? null : safeFileName(part.filename);
  return given ?? `attachment-${number}.${ENDINGS[part.mime] ?? libmime.detectExtension(part.mime)}`;
}

function belongsToBody(part: Part): boolean {
  return part.inRelated || (part.branches.size > 0 && part.filename === null) || MACHINE.test(part.mime);
}

function decodeCid(reference: string): string {
  try {
    return decodeURIComponent(reference.replaceAll('&amp;', '&'));
  } catch {
    return reference;
  }
}
