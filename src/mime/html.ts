import { compile, type FormatCallback } from 'html-to-text';

/*
 * HTML from plain text and plain text from HTML. Mail is hostile: every expression is linear in the length of the text.
 */

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const LINK = /\bhttps?:\/\/[^\s<>"'\u0000-\u0020]{1,2000}/gi;
const AFTER_LINK = /(?<![.,;:!?)\]}*_])[.,;:!?)\]}*_]+$/;

/** Escapes the five characters that have a meaning in HTML. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => ESCAPES[char] ?? char);
}

/** An HTML rendering of plain text: paragraphs, line breaks, http(s) links; runs of spaces survive. '' for blank text. */
export function textToHtml(text: string): string {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const paragraphs: string[][] = [[]];
  for (const line of lines) {
    if (line.trim() === '') paragraphs.push([]);
    else paragraphs.at(-1)?.push(renderLine(line.trimEnd()));
  }
  return paragraphs
    .filter((paragraph) => paragraph.length > 0)
    .map((paragraph) => `<p>${paragraph.join('<br/>\n')}</p>`)
    .join('\n');
}

function renderLine(line: string): string {
  let html = '';
  let end = 0;
  for (const match of line.matchAll(LINK)) {
    const url = match[0].replace(AFTER_LINK, '');
    html += `${escapeHtml(line.slice(end, match.index))}<a href="${escapeHtml(url)}">${escapeHtml(url)}</a>`;
    end = match.index + url.length;
  }
  html += escapeHtml(line.slice(end));
  return html.replace(/^ | (?= )/g, '&nbsp;').replaceAll('\t', '&nbsp;&nbsp;&nbsp; ');
}

/** Longer HTML (in characters) is only stripped of its tags: a conversion would take seconds. */
const MAX_CONVERTED = 512 * 1024;

/** Deeper HTML is only stripped of its tags: the conversion is quadratic in the depth. */
const MAX_DEPTH = 2000;

/** Writes a space between the cells of a row: their words would run together. */
const cell: FormatCallback = (element, walk, builder) => {
  walk(element.children, builder);
  builder.addInline(' ');
};

interface Node {
  name?: string;
  data?: string;
  attribs?: Record<string, string>;
  children?: Node[];
  parent?: Node | null;
}

/** Longer targets of links are never their own text. */
const MAX_HREF = 2000;

/**
 * Writes the target of a link behind its text, if they differ. The library's own does not see a text within `pre`, and
 * writes the target once more.
 */
const link: FormatCallback = (element, walk, builder) => {
  const node = element as Node;
  const href = (node.attribs?.['href'] ?? '').replace(/^mailto:/, '');
  walk(element.children, builder);
  if (href === '' || href.startsWith('#')) return;
  const text = textOf(node, Math.min(href.length, MAX_HREF));
  if (text === href) return;
  const shown = text === '' ? href : ` <${href}>`;
  if (isIn(node, 'pre')) builder.addLiteral(shown);
  else builder.addInline(shown, { noWordTransform: true });
};

/** The text of an element without blanks; of a longer one, its beginning of more than `enough` characters. */
function textOf(node: Node, enough: number): string {
  let text = (node.data ?? '').replace(/\s+/g, '');
  for (const child of node.children ?? []) {
    if (text.length > enough) break;
    text += textOf(child, enough - text.length);
  }
  return text;
}

function isIn(node: Node, name: string): boolean {
  for (let above = node.parent; above; above = above.parent) if (above.name === name) return true;
  return false;
}

/** The part of html-to-text that chooses the formatter of an element. */
interface Picker {
  pick1(element: { name: string }): unknown;
}

const MAX_NAMES = 200;

/**
 * Makes a picker choose once for each name: it checks its selectors for every element, though all of them are names.
 * html-to-text has no option for that; 100 KB of HTML take 11.9 ms without it and 7.4 ms with it.
 */
function rememberNames(picker: Picker): void {
  const pick = picker.pick1.bind(picker);
  const known = new Map<string, unknown>();
  picker.pick1 = (element) => {
    const found = known.get(element.name);
    if (found !== undefined) return found;
    const picked = pick(element);
    if (known.size >= MAX_NAMES) known.clear();
    known.set(element.name, picked);
    return picked;
  };
}

/** The first element written gives access to the picker: the one below, when this module is loaded. */
const FIRST = 'x-first';
let isPrepared = false;
const first: FormatCallback = (element, walk, builder) => {
  if (!isPrepared) rememberNames((builder as unknown as { picker: Picker }).picker);
  isPrepared = true;
  walk(element.children, builder);
};

const convert = compile({
  wordwrap: false,
  // All of it: programs write a reply above or below the document that it quotes, outside of its body element.
  baseElements: { selectors: [], returnDomByDefault: true },
  formatters: { cell, first, link },
  // no search for base elements
  limits: { maxDepth: 200, maxInputLength: MAX_CONVERTED, maxBaseElements: 0 },
  selectors: [
    { selector: 'img', format: 'skip' },
    { selector: 'a', format: 'link' },
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
    { selector: 'tr', format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    ...['td', 'th'].map((selector) => ({ selector, format: 'cell' })),
    ...['style', 'script', 'title', 'noscript', 'template'].map((selector) => ({ selector, format: 'skip' })),
    { selector: FIRST, format: 'first' },
  ],
});
convert(`<${FIRST}>`);

/** Plain text from an HTML body, without images. Very long, deep or broken HTML is only stripped of its tags. */
export function htmlToPlain(html: string): string {
  if (html.length > MAX_CONVERTED || isDeep(html)) return stripTags(html);
  try {
    return convert(html).trim();
  } catch {
    return stripTags(html);
  }
}

const VOID = new Set(['br', 'img', 'hr', 'input', 'meta', 'link', 'col', 'area', 'base', 'wbr', 'source']);

/** Whether so many elements are open together that a parser would take quadratic time. */
export function isDeep(html: string): boolean {
  return hasManyTags(html) && depthOf(html) > MAX_DEPTH;
}

function hasManyTags(html: string): boolean {
  let tags = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) if (++tags > MAX_DEPTH) return true;
  return false;
}

/** The largest number of elements open together; unclosed ones count as open to the end. */
function depthOf(html: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [, slash, name = ''] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    if (slash) depth = Math.max(0, depth - 1);
    else if (!VOID.has(name.toLowerCase())) depth += 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

const HIDDEN = new Set(['style', 'script', 'title', 'template']);
const BREAKS = new Set([
  'br',
  'p',
  'div',
  'tr',
  'li',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'table',
  'ul',
  'ol',
  'blockquote',
]);
const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };

/** The text between the tags, in one pass and linear time. */
export function stripTags(html: string): string {
  const pieces: string[] = [];
  let hidden: string | null = null;
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf('<', at);
    const end = open < 0 ? html.length : open;
    if (hidden === null && end > at) pieces.push(html.slice(at, end));
    if (open < 0) break;
    const { tag, closing, end: after } = readTag(html, open);
    if (hidden === null && !closing && HIDDEN.has(tag)) hidden = tag;
    else if (closing && tag === hidden) hidden = null;
    if (BREAKS.has(tag)) pieces.push('\n');
    at = after;
  }
  return decodeEntities(pieces.join(''))
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** The tag or comment that begins at `open`, its name in lower case, and where it ends: unclosed, at the end of the text. */
function readTag(html: string, open: number): { tag: string; closing: boolean; end: number } {
  const terminator = html.startsWith('<!--', open) ? '-->' : '>';
  const close = html.indexOf(terminator, open);
  const [, slash, name = ''] = /^<(\/?)([a-z][a-z0-9]*)/i.exec(html.slice(open, open + 16)) ?? [];
  return { tag: name.toLowerCase(), closing: slash === '/', end: close < 0 ? html.length : close + terminator.length };
}

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (entity, decimal, hex, name) => {
    if (name) return ENTITIES[String(name).toLowerCase()] ?? entity;
    const code = decimal ? Number(decimal) : Number.parseInt(String(hex), 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '';
  });
}
