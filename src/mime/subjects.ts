/** What mail programs put before the subject of a reply, in the languages that are met; lower case. */
const REPLY =
  're|aw|antw|antwort|sv|vs|ref|rif|r|odp|odpowiedź|res|resp|ynt|vá|vl|atb|bls|blt|απ|σχετ|hl|notat|на|отв|ответ|відп|回复|回覆|答复|答覆|返信|回信|회신|답장|رد|تر|השב|ตอบ|trả lời';
/** The same for mail that is passed on. */
const FORWARD =
  'fwd?|wg|doorst|tr|pd|enc|rv|vb|i|továbbítás|ilt|i̇lt|iml|προωθ|пересл|пер|转发|轉寄|轉發|転送|전달|إعادة توجيه|הועבר|ส่งต่อ|chuyển tiếp';

/** subj-blob of RFC 5256: `[list]`, and the counters of `Re[2]:`, `Re(2):`, `Re^2:`. */
const BLOB = /^\[[^[\]]*\]\s*/;
const PREFIX = new RegExp(
  `^(?:(${REPLY})|(${FORWARD}))\\s*(?:\\[[^[\\]]*\\]|\\(\\d+\\)|\\^\\d+|\\d{1,2})?\\s*[:：︰]\\s*`,
  'iu',
);
const TRAILER = /\s*\(fwd\)\s*$/i;
const FORWARD_HEADER = /^\[fwd:\s*(.*)\]$/i;

const MAX_SUBJECT = 1000;
const MAX_ROUNDS = 50;

export interface BaseSubject {
  /** what is left when all prefixes are taken off; '' when nothing is */
  base: string;
  /** the first prefix is one of a reply (and not of forwarded mail) */
  isReply: boolean;
}

/** Base subject (RFC 5256 2.1), with the prefixes of other languages too. */
export function baseSubjectOf(subject: string): BaseSubject {
  let text = subject.slice(0, MAX_SUBJECT).replace(/\s+/g, ' ').trim();
  let first: 'reply' | 'forward' | null = null;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const before = text;
    if (TRAILER.test(text)) first ??= 'forward';
    text = text.replace(TRAILER, '');
    const { rest, kind } = withoutLeaders(text);
    first ??= kind;
    const wrapped = FORWARD_HEADER.exec(rest);
    if (wrapped) first ??= 'forward';
    text = (wrapped?.[1] ?? rest).trim();
    if (text === before) break;
  }
  return { base: text, isReply: first === 'reply' };
}

/** Takes off one prefix with the blobs before it, else one blob, unless nothing would be left then. */
function withoutLeaders(text: string): { rest: string; kind: 'reply' | 'forward' | null } {
  let rest = text;
  while (BLOB.test(rest) && !FORWARD_HEADER.test(rest)) rest = rest.replace(BLOB, '');
  const match = PREFIX.exec(rest);
  if (match) return { rest: rest.slice(match[0].length), kind: match[1] ? 'reply' : 'forward' };
  return { rest: rest === '' ? text : rest, kind: null };
}
