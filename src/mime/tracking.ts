import { QuoteType, Tokenizer } from 'htmlparser2';
import type { Header } from '../contract/email.ts';
import { escapeHtml, htmlToPlain } from './html.ts';
import type { OutgoingMessage } from './write/outgoing-message.ts';

/** Where a tracked mail's pixel and links lead: `baseUrl` is PUBLIC_URL or the custom domain's, without a slash at the end. */
export function trackingUrls(baseUrl: string, trackingId: string): { open: string; click: (n: number) => string } {
  const base = baseUrl.replace(/\/+$/, '');
  return { open: `${base}/t/o/${trackingId}.gif`, click: (n) => `${base}/t/c/${trackingId}/${n}` };
}

/**
 * The message as it is delivered when opens or clicks are to be told (CONTRACT "Tracking"), and the targets of its
 * links: number n of trackingUrls is `links[n]`, from 0. Every http(s) link of `a` and `area` is led past us but those
 * to unsubscribe; all else of the HTML stays as it is, and the text is that of the HTML as it was. A message without
 * HTML stays as it is.
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

/** Text of a link that is looked at: an unsubscribe link is short. */
const MAX_TEXT = 500;
/** White space around the `=` of an attribute. */
const MAX_GAP = 1000;

/** The links of an HTML text, and where its body ends. */
function readHtml(html: string): { links: Link[]; bodyEnd: number } {
  const links: Link[] = [];
  let bodyEnd = html.length;
  let tag = '';
  /** the link of the tag that is being read */
  let found: Link | null = null;
  /** the link whose text is being read */
  let open: Link | null = null;
  let nameEnd = 0;
  let value: string[] | null = null;
  const addText = (text: string): void => {
    if (open && open.text.length < MAX_TEXT) open.text += text;
  };
  const endTag = (): void => {
    if (found) links.push(found);
    if (tag === 'a') open = found;
    found = null;
  };
  const nothing = (): void => {};
  const tokenizer = new Tokenizer(
    { decodeEntities: true },
    {
      onopentagname: (start, end) => {
        tag = html.slice(start, end).toLowerCase();
        found = null;
      },
      onattribname: (start, end) => {
        // of an attribute given twice the first counts
        const isHref = !found && (tag === 'a' || tag === 'area') && html.slice(start, end).toLowerCase() === 'href';
        value = isHref ? [] : null;
        nameEnd = end;
      },
      onattribdata: (start, end) => value?.push(html.slice(start, end)),
      onattribentity: (codePoint) => value?.push(String.fromCodePoint(codePoint)),
      onattribend: (quote, end) => {
        if (!value) return;
        const start = nameEnd + (/^\s*=\s*["']?/.exec(html.slice(nameEnd, nameEnd + MAX_GAP))?.[0].length ?? 0);
        const isQuoted = quote === QuoteType.Double || quote === QuoteType.Single;
        found = { start, end: isQuoted ? end - 1 : end, target: targetOf(value.join('')), text: '' };
        value = null;
      },
      onopentagend: endTag,
      onselfclosingtag: endTag,
      onclosetag: (start, end) => {
        const name = html.slice(start, end).toLowerCase();
        if (name === 'a') open = null;
        if (name === 'body') bodyEnd = html.lastIndexOf('<', start);
      },
      ontext: (start, end) => addText(html.slice(start, Math.min(end, start + MAX_TEXT))),
      ontextentity: (codePoint) => addText(String.fromCodePoint(codePoint)),
      oncdata: nothing,
      oncomment: nothing,
      ondeclaration: nothing,
      onprocessinginstruction: nothing,
      onend: nothing,
    },
  );
  tokenizer.write(html);
  tokenizer.end();
  return { links, bodyEnd };
}

/** A URL as browsers read it (WHATWG URL 4.4): without the white space around it and line breaks within. */
function targetOf(value: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: browsers strip them
  return value.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\r\n]/g, '');
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

/** How links to leave a mailing list name themselves. */
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

/** The text with each range replaced; ranges in any order, none within another. */
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
 * The HTML of a tracked mail as it was before trackMessage: providers that file what is sent by themselves keep it with
 * the pixel and the links that were rewritten.
 */
export function untrackHtml(html: string, trackingId: string, links: readonly string[]): string {
  if (!html.includes(trackingId)) return html;
  return html
    .replace(new RegExp(`<img src="[^"<>]*/t/o/${trackingId}\\.gif"[^<>]*>`, 'g'), '')
    .replace(new RegExp(`[^\\s"'<>=]*/t/c/${trackingId}/(\\d+)`, 'g'), (url, n: string) =>
      links[Number(n)] === undefined ? url : escapeHtml(links[Number(n)] as string),
    );
}
