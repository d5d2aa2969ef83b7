import { QuoteType, Tokenizer, type TokenizerCallbacks as Callbacks } from 'htmlparser2';
import type { Header } from '../contract/email.ts';
import { escapeHtml, htmlToPlain } from './html.ts';
import type { OutgoingMessage } from './write/outgoing-message.ts';

/** The URLs of a tracked mail's pixel and links. `baseUrl` is PUBLIC_URL, or the URL of the custom domain. */
export function trackingUrls(baseUrl: string, trackingId: string): { open: string; click: (n: number) => string } {
  const base = baseUrl.replace(/\/+$/, '');
  return { open: `${base}/t/o/${trackingId}.gif`, click: (n) => `${base}/t/c/${trackingId}/${n}` };
}

/**
 * The message as it is delivered when opens or clicks are tracked, and the targets of its links: number n of trackingUrls is
 * `links[n]`, from 0. Every http(s) link of `a` and `area` leads through this service, except unsubscribe links. The rest
 * of the HTML stays unchanged; the plain text is made from the HTML before the change. A message without HTML stays
 * unchanged.
 */
export function trackMessage(
  message: OutgoingMessage,
  options: { trackingId: string; opens: boolean; links: boolean; baseUrl: string },
): { message: OutgoingMessage; links: string[] } {
  const { html } = message;
  if (html === null || !(options.opens || options.links)) return { message, links: [] };
  const urls = trackingUrls(options.baseUrl, options.trackingId);
  const { links, bodyEnd } = readHtml(html);
  const kept = unsubscribeTargets(message.headers);
  const tracked = options.links ? links.filter((link) => isTracked(link, kept)) : [];
  const edits = tracked.map(({ start, end }, n) => ({ start, end, text: escapeHtml(urls.click(n)) }));
  if (options.opens) edits.push({ start: bodyEnd, end: bodyEnd, text: pixel(urls.open) });
  return {
    message: { ...message, html: edited(html, edits), plainText: message.plainText ?? htmlToPlain(html) },
    links: tracked.map(({ target }) => target),
  };
}

function pixel(url: string): string {
  return `<img src="${escapeHtml(url)}" width="1" height="1" alt="" style="display:block;width:1px;height:1px;border:0">`;
}

interface Link {
  /** range of the attribute's value in the HTML */
  start: number;
  end: number;
  /** the value, entities decoded */
  target: string;
  /** the text of the link */
  text: string;
}

/** Characters read from a link's text: an unsubscribe link is short. */
const MAX_TEXT = 500;
/** Characters of white space around the `=` of an attribute. */
const MAX_GAP = 1000;

/** The links of an HTML text, in order, and the offset where its body ends. */
function readHtml(html: string): { links: Link[]; bodyEnd: number } {
  const reader = new LinkReader(html);
  const tokenizer = new Tokenizer({ decodeEntities: true }, reader);
  tokenizer.write(html);
  tokenizer.end();
  return reader;
}

/** Collects links from the tokens of an HTML text, which the tokenizer names by their offsets. */
class LinkReader implements Callbacks {
  readonly links: Link[] = [];
  bodyEnd: number;
  readonly #html: string;
  /** name of the tag that is being read */
  #tag = '';
  /** the link that this tag makes */
  #linkOfTag: Link | null = null;
  /** the link whose text is being read */
  #openLink: Link | null = null;
  /** pieces of the `href` that is being read */
  #href: string[] | null = null;
  #nameEnd = 0;

  constructor(html: string) {
    this.#html = html;
    this.bodyEnd = html.length;
  }

  onopentagname(start: number, end: number): void {
    this.#tag = this.#html.slice(start, end).toLowerCase();
    this.#linkOfTag = null;
  }

  onattribname(start: number, end: number): void {
    const isLinkTag = this.#tag === 'a' || this.#tag === 'area';
    // the first of duplicate attributes counts
    const isHref = isLinkTag && !this.#linkOfTag && this.#html.slice(start, end).toLowerCase() === 'href';
    this.#href = isHref ? [] : null;
    this.#nameEnd = end;
  }

  onattribdata(start: number, end: number): void {
    this.#href?.push(this.#html.slice(start, end));
  }

  onattribentity(codePoint: number): void {
    this.#href?.push(String.fromCodePoint(codePoint));
  }

  onattribend(quote: QuoteType, end: number): void {
    if (!this.#href) return;
    const gap = /^\s*=\s*["']?/.exec(this.#html.slice(this.#nameEnd, this.#nameEnd + MAX_GAP))?.[0] ?? '';
    const isQuoted = quote === QuoteType.Double || quote === QuoteType.Single;
    this.#linkOfTag = {
      start: this.#nameEnd + gap.length,
      end: isQuoted ? end - 1 : end,
      target: targetOf(this.#href.join('')),
      text: '',
    };
    this.#href = null;
  }

  onopentagend(): void {
    if (this.#linkOfTag) this.links.push(this.#linkOfTag);
    if (this.#tag === 'a') this.#openLink = this.#linkOfTag;
    this.#linkOfTag = null;
  }

  onselfclosingtag(): void {
    this.onopentagend();
  }

  onclosetag(start: number, end: number): void {
    const name = this.#html.slice(start, end).toLowerCase();
    if (name === 'a') this.#openLink = null;
    if (name === 'body') this.bodyEnd = this.#html.lastIndexOf('<', start);
  }

  ontext(start: number, end: number): void {
    this.#addText(this.#html.slice(start, Math.min(end, start + MAX_TEXT)));
  }

  ontextentity(codePoint: number): void {
    this.#addText(String.fromCodePoint(codePoint));
  }

  oncdata(): void {}
  oncomment(): void {}
  ondeclaration(): void {}
  onprocessinginstruction(): void {}
  onend(): void {}

  #addText(text: string): void {
    if (this.#openLink && this.#openLink.text.length < MAX_TEXT) this.#openLink.text += text;
  }
}

/** A URL as browsers read it (WHATWG URL 4.4): without surrounding white space and line breaks. */
function targetOf(value: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: browsers strip them
  return value.replace(/^[\0-\x20]+|(?<![\0-\x20])[\0-\x20]+$/g, '').replace(/[\t\r\n]/g, '');
}

function isTracked({ target, text }: Link, kept: ReadonlySet<string>): boolean {
  if (!/^https?:\/\//i.test(target) || !URL.canParse(target) || kept.has(target)) return false;
  return !UNSUBSCRIBE.test(readable(target)) && !UNSUBSCRIBE.test(text.replace(/\s+/g, ' '));
}

function readable(url: string): string {
  try {
    return decodeURIComponent(url);
  } catch {
    return url;
  }
}

/** Words in the text or URL of unsubscribe links. */
const UNSUBSCRIBE = new RegExp(
  [
    ...['un-?subscri', 'opt[-_ ]?out', 'remove me', 'manage (your )?(email )?(preferences|subscription)'],
    ...['abmelde', 'abbestell', 'austragen', 'd[ée]sabonne', 'd[ée]sinscri', 'd[ée]sinscription'],
    ...[
      'darse de baja',
      'darme de baja',
      'date de baja',
      'cancelar (la |tu |su |a |minha )?(suscripci|inscri|assinatura|subscri)',
    ],
    ...[
      'anular (la )?suscripci',
      'descadastr',
      'cancella(ti|mi|re)?( la| l.)?( tua)? iscrizione',
      'disiscri',
      'annulla(re)? (la |l.)?iscrizione',
    ],
    ...[
      'afmeld',
      'uitschrijv',
      'avregistrer',
      'avprenumer',
      'avsluta prenumeration',
      'framelde',
      'avmeld',
      'peru(uta)? (uutiskirje|tilaus)',
    ],
    ...[
      'wypisz',
      'zrezygnuj',
      'anuluj subskrypcj',
      'odhl[áa]s',
      'leiratkoz',
      'dezabon',
      'abonelikten',
      'aboneli[ğg]i(ni)? iptal',
    ],
    ...['отпис', 'відпис', 'διαγραφ', 'κατάργηση εγγραφής', 'إلغاء الاشتراك', 'הסר', 'सदस्यता (समाप्त|छोड़)'],
    ...[
      '退订',
      '退訂',
      '取消订阅',
      '取消訂閱',
      '配信停止',
      '登録解除',
      '購読解除',
      '수신 ?거부',
      '구독 ?(취소|해지)',
      'hủy đăng ký',
    ],
  ].join('|'),
  'iu',
);

/** The URLs of List-Unsubscribe (RFC 2369). */
function unsubscribeTargets(headers: readonly Header[]): Set<string> {
  const values = headers.filter(({ name }) => name.toLowerCase() === 'list-unsubscribe').map(({ value }) => value);
  return new Set(
    values.flatMap((value) => [...value.matchAll(/<([^<>]*)>/g)].map(([, url = '']) => url.replace(/\s/g, ''))),
  );
}

/** Replaces ranges of a text; in any order, not overlapping. */
function edited(text: string, edits: { start: number; end: number; text: string }[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const edit of edits.sort((a, b) => a.start - b.start)) {
    pieces.push(text.slice(at, edit.start), edit.text);
    at = edit.end;
  }
  pieces.push(text.slice(at));
  return pieces.join('');
}

/**
 * Restores the HTML of a tracked mail as it was before trackMessage. Providers that file the Sent copy themselves store it
 * with the pixel and the rewritten links.
 */
export function untrackHtml(html: string, trackingId: string, links: readonly string[]): string {
  if (!html.includes(trackingId)) return html;
  return html
    .replace(new RegExp(`<img src="[^"<>]*/t/o/${trackingId}\\.gif"[^<>]*>`, 'g'), '')
    .replace(new RegExp(`(?<![^\\s"'<>=])[^\\s"'<>=]*/t/c/${trackingId}/(\\d+)`, 'g'), (url, n: string) =>
      links[Number(n)] === undefined ? url : escapeHtml(links[Number(n)] as string),
    );
}
