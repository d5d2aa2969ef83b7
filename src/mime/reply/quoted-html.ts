import { Parser } from 'htmlparser2';
import { isDeep } from '../html.ts';
import { BLOCK_BEGINS, BLOCK_ENDS } from './blocks.ts';

/*
 * The marks by which mail programs find a quote in HTML again: their own names of elements, classes and ids. Outlook adds
 * `x_` to those of a mail that it quotes.
 */

/** Longer HTML, in characters, is not searched. */
const MAX_HTML = 2 * 1024 * 1024;

/** Longer names of classes and ids, in characters, are of no mail program: the expressions take time in the square of the length. */
const MAX_NAME = 200;

/** What replaces a quote, which then reads as a quoted line, and the tags of a block. */
const REPLACEMENTS: Partial<Record<Range['kind'], string>> = {
  quote: '<div>&gt;</div>',
  rest: '<div>&gt;</div>',
  begin: `<div>${BLOCK_BEGINS}</div>`,
  end: `<div>${BLOCK_ENDS}</div>`,
};
const RESERVED = new RegExp(`[${BLOCK_BEGINS}${BLOCK_ENDS}]`);

/** Elements that hold a quote, or what introduces it. */
const QUOTED_CLASS =
  /^(?:x_)*(?:gmail_attr|moz-cite-prefix|moz-forward-container|\w*yahoo_quoted|protonmail_quote|zmail_extra|tutanota_quote|clean_bq|freshdesk_quote|front-blockquote|sh-quoted-content|mailru-blockquote|mail_quote|email-quoted-reply)$/i;
const QUOTED_ID =
  /^(?:x_)*(?:mail-editor-reference-message-container|\w*yahoo_quoted\w*|isreplycontent|isforwardcontent|replybody\d*)$/i;
/** Elements that begin a quote which ends with the document. */
const LAST_CLASS = /^(?:x_)*(?:outlookmessageheader)$/i;
const LAST_ID = /^(?:x_)*(?:olk_src_body_section|divrplyfwdmsg|appendonsend|stopspelling|zwchr)$/i;
const SIGNATURE_CLASS =
  /^(?:x_)*(?:gmail_signature|gmail_signature_prefix|moz-signature|protonmail_signature_block|\w*-?yahoo-signature)$/i;
const SIGNATURE_ID = /^(?:x_)*(?:signature|ms-outlook-mobile-signature|applemailsignature|applelinksignature)$/i;

/** The line above a header that Outlook copies, in all its versions and languages. */
const OUTLOOK_HEADER = /border-top:\s*solid\s+#?\w{3,10}\s+1(?:\.0)?pt;[^"]{0,80}padding:\s*3(?:\.0)?pt\s+0/i;
/** The line to the left of a text that Outlook quotes. */
const OUTLOOK_QUOTE =
  /border-left:\s*solid\s+(?:blue|#\w{6})\s+1\.5pt;[^"]{0,80}padding:\s*0\w{2}\s+0\w{2}\s+0\w{2}\s+4(?:\.0)?pt/i;
const ANY_MARK =
  /blockquote|gmail_|moz-(?:cite|forward|signature)|yahoo(?:_quoted|-signature)|protonmail|zmail_extra|tutanota|clean_bq|freshdesk|sh-quoted|mail_quote|quoted-reply|olk_src|reference-message|isreplycontent|isforwardcontent|outlookmessageheader|divrplyfwdmsg|appendonsend|stopspelling|zwchr|signature|border-(?:top|left):\s*solid|originalmessage|messagereplysection|__quoted_text__|name="?quote/i;

type Kind = 'quote' | 'rest' | 'signature' | 'block' | 'gmail';

/** `begin` and `end`: the tags of a block. */
interface Range {
  start: number;
  end: number;
  kind: Kind | 'begin' | 'end';
}

/** HTML whose quotes are shortened to a quoted line each. */
export interface CutHtml {
  html: string;
  /** without the signature, too; null: no program has marked one */
  unsigned: string | null;
}

/** Cuts the quotes out of HTML by the marks of mail programs. Null: it has none. Takes linear time. */
export function cutQuotes(html: string): CutHtml | null {
  if (html.length > MAX_HTML || !ANY_MARK.test(html) || RESERVED.test(html) || isDeep(html)) return null;
  const ranges = findRanges(html);
  const quotes = ranges.filter(({ kind }) => kind !== 'signature');
  if (ranges.length === 0) return null;
  const hasSignature = quotes.length < ranges.length;
  return { html: without(html, quotes), unsigned: hasSignature ? without(html, ranges) : null };
}

function without(html: string, ranges: readonly Range[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const { start, end, kind } of ranges) {
    if (start < at) continue;
    pieces.push(html.slice(at, start));
    pieces.push(REPLACEMENTS[kind] ?? '');
    at = end;
  }
  return [...pieces, html.slice(at)].join('');
}

interface Open {
  name: string;
  kind: Kind | null;
  start: number;
  /** ranges found before it */
  found: number;
}

function findRanges(html: string): Range[] {
  const ranges: Range[] = [];
  const open: Open[] = [];
  /** depth of the element that is cut; its content is skipped */
  let cut = Number.POSITIVE_INFINITY;
  let isOver = false;
  const rest = (start: number): void => {
    ranges.push({ start, end: html.length, kind: 'rest' });
    isOver = true;
  };
  const parser = new Parser(
    {
      onopentag(name, attributes) {
        const start = parser.startIndex;
        const kind = isOver || open.length >= cut ? null : kindOf(name, attributes);
        open.push({ name, kind, start, found: ranges.length });
        if (kind === 'rest') rest(start);
        if (kind === 'quote' || kind === 'signature') cut = open.length;
        if (kind === 'block') ranges.push({ start, end: parser.endIndex + 1, kind: 'begin' });
      },
      onclosetag() {
        const element = open.pop();
        if (!element || isOver) return;
        if (open.length < cut) cut = Number.POSITIVE_INFINITY;
        const tag = closingTag(html, element.name, parser);
        if (element.kind === 'block') ranges.push({ ...tag, kind: 'end' });
        if (element.kind === 'quote' || element.kind === 'signature') {
          ranges.push({ start: element.start, end: tag.end, kind: element.kind });
        }
        if (element.kind === 'gmail') cutGmail(html, ranges, { element, end: tag.end });
      },
      oncomment(text) {
        if (!isOver && open.length < cut && /^\s*originalmessage\s*$/i.test(text)) rest(parser.startIndex);
      },
    },
    { decodeEntities: false },
  );
  parser.end(html);
  return ranges.sort((a, b) => a.start - b.start || b.end - a.end);
}

/** Where the closing tag of an element is; empty where another tag or the end of the document closes it. */
function closingTag(html: string, name: string, { startIndex, endIndex }: Parser): { start: number; end: number } {
  const start = Math.min(startIndex, html.length);
  const isOwn = html.slice(start + 2, start + 2 + name.length).toLowerCase() === name && html.startsWith('</', start);
  return { start, end: isOwn ? Math.min(endIndex + 1, html.length) : start };
}

/**
 * Gmail's div around a quote: the author's answers may be in it, below quoted blocks. All of it is cut when it holds a
 * forwarded message, or no block.
 */
function cutGmail(html: string, ranges: Range[], { element, end }: { element: Open; end: number }): void {
  const inside = ranges.splice(element.found);
  const first = inside.filter(({ kind }) => kind === 'quote').sort((a, b) => a.start - b.start);
  const block = first.find(({ start }) => /^<blockquote/i.test(html.slice(start, start + 11)));
  const head = html.slice(element.start, Math.min(block?.start ?? end, element.start + 2000));
  const isWhole = !block || />\s*-{5,}/.test(head);
  ranges.push({ start: element.start, end: isWhole ? end : block.end, kind: 'quote' });
  if (isWhole) return;
  for (const range of inside) if (range.start >= block.end) ranges.push(range);
}

type Attributes = Record<string, string>;

function kindOf(name: string, attributes: Attributes): Kind | null {
  const { style = '' } = attributes;
  const [id = '', ...classes] = namesOf(attributes);
  const has = (expression: RegExp): boolean => classes.some((each) => expression.test(each));
  const hasStyle = (expression: RegExp): boolean => name === 'div' && expression.test(style);
  if (LAST_ID.test(id) || has(LAST_CLASS) || hasStyle(OUTLOOK_HEADER)) return 'rest';
  if (QUOTED_ID.test(id) || has(QUOTED_CLASS) || hasStyle(OUTLOOK_QUOTE) || isNamedQuote(attributes)) return 'quote';
  if (isSignature(attributes) || has(SIGNATURE_CLASS)) return 'signature';
  if (name === 'blockquote') return kindOfBlock(attributes, has);
  return has(/^(?:x_)*gmail_quote$/i) ? 'gmail' : null;
}

/** The id, or '', and the classes. */
function namesOf({ id = '', class: classes = '' }: Attributes): string[] {
  return [id, ...classes.split(/\s+/, 20)].map((name) => (name.length > MAX_NAME ? '' : name));
}

const isSignature = ({ id = '', name }: Attributes): boolean =>
  SIGNATURE_ID.test(id) || name === 'messageSignatureSection';

const isNamedQuote = (attributes: Attributes): boolean =>
  /^(?:quote|messageReplySection)$/.test(attributes['name'] ?? '') || attributes['data-marker'] === '__QUOTED_TEXT__';

/** A block of Gmail with a margin alone is a paragraph that its author has indented; other blocks may be either. */
function kindOfBlock({ type = '', style = '' }: Attributes, has: (expression: RegExp) => boolean): Kind {
  const isIndented = /border:\s*none/i.test(style) && !/border-left/i.test(style);
  return /^cite$/i.test(type) || (has(/^(?:x_)*gmail_quote$/i) && !isIndented) ? 'quote' : 'block';
}
