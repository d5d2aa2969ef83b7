/** The login that a mail server was sent. */
export interface Login {
  user: string;
  password: string;
}

const SHOWN = 200;
/** Only this much of a server's text is read. */
const READ = 4_000;
const HIDDEN = '…';

/**
 * The text of a mail server as one short line, without the login and without addresses. Servers and their filters echo
 * what they were sent: the password, the user name, or the SASL response that holds both, as base64 of any alignment, as
 * hex, or with the escapes of URLs, HTML, MIME and quoted strings. Empty when nothing can be shown safely.
 */
export function withoutLogin(text: string | undefined, login: Login): string {
  const line = firstOf((text ?? '').replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim());
  const secrets = secretsOf(login);
  const shown = hideLiterals(line, secrets)
    .replace(/\S+@\S+/g, HIDDEN)
    .replace(/\S+/g, (word) => (reveals(word, secrets) ? HIDDEN : word));
  return isSpreadOver(shown, login) ? '' : shown.slice(0, SHOWN);
}

/** Cutting must not leave a part of a word that would be recognised as a whole. */
function firstOf(line: string): string {
  if (line.length <= READ) return line;
  const end = line.lastIndexOf(' ', READ);
  return end < 0 ? '' : line.slice(0, end);
}

interface Secret {
  raw: string;
  /** its UTF-8 bytes, one character for each, in lower case */
  bytes: string;
  /** its characters in lower case */
  text: string;
  /** found as a whole word only: elsewhere it would be found by chance, and the gaps would reveal it */
  asWord: boolean;
}

/** A shorter password is a part of ordinary words. */
const TELLING = 4;

function secretsOf({ user, password }: Login): Secret[] {
  const [local = ''] = user.split('@', 1);
  const named = [user, local].map((text) => ({ text, asWord: true }));
  const packed = password.replace(/\s+/g, '');
  const secret = [password.replace(/\s+/g, ' '), packed].map((text) => ({ text, asWord: text.length < TELLING }));
  return [...secret, ...named]
    .filter(({ text }) => text.trim() !== '')
    .map(({ text, asWord }) => ({ raw: text, text: text.toLowerCase(), bytes: bytesOf(text), asWord }));
}

function bytesOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1').toLowerCase();
}

function hideLiterals(line: string, secrets: Secret[]): string {
  return secrets.reduce((hidden, { text, asWord }) => {
    const literal = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    const pattern = asWord ? `(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])` : literal;
    return hidden.replace(new RegExp(pattern, 'giu'), HIDDEN);
  }, line);
}

/** Whether a word holds a secret, in any encoding. */
function reveals(word: string, secrets: Secret[]): boolean {
  // the digest of a challenge and a password allows guesses of the password to be checked
  if (/[0-9a-f]{32}/i.test(word)) return true;
  const plain = [...new Set([word, ...unescapings(word)])];
  const decoded = plain.flatMap((text) => decodings(text));
  const found = [...plain.map(bytesOf), ...decoded, ...decoded.flatMap((text) => unescapings(text))];
  return (
    found.some((text) => secrets.some((secret) => holds(text.toLowerCase(), secret))) ||
    plain.some((text) => holdsEncoded(text.toLowerCase(), secrets))
  );
}

function holds(text: string, { bytes, asWord }: Secret): boolean {
  for (let at = text.indexOf(bytes); at >= 0; at = text.indexOf(bytes, at + 1)) {
    if (!asWord || !(isWordAt(text, at - 1) || isWordAt(text, at + bytes.length))) return true;
  }
  return false;
}

function isWordAt(text: string, at: number): boolean {
  return /[a-z0-9\x80-\xff]/.test(text[at] ?? '');
}

const NAMED: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** The text without the escapes of URLs, HTML, quoted-printable, JSON and quoted strings. */
function unescapings(text: string): string[] {
  const byHex = text.replace(/(?:%|=|\\x|\\u00|&#x)([0-9a-f]{2});?/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  const byName = byHex
    .replace(/&(amp|lt|gt|quot|apos);/gi, (_, name: string) => NAMED[name.toLowerCase()] ?? '')
    .replace(/&#(\d{1,3});/g, (_, code: string) => String.fromCharCode(Number(code)));
  return [byHex, byName, text.replace(/\\(.)/g, '$1'), byHex.replaceAll('+', ' ')].filter((each) => each !== text);
}

/** Base64 and hex at every alignment; other text becomes meaningless bytes. */
function decodings(text: string): string[] {
  const runs = (pattern: RegExp) => text.match(pattern) ?? [];
  const base64 = runs(/[A-Za-z0-9+/_-]{4,}/g).flatMap((run) =>
    [0, 1, 2, 3].map((at) => decode(run.slice(at), 'base64')),
  );
  const hex = runs(/(?:[0-9a-f]{2}[:,-]?){2,}/gi).map((run) => run.replace(/[:,-]/g, ''));
  return [...base64, ...hex.flatMap((run) => [decode(run, 'hex'), decode(run.slice(1), 'hex')])];
}

function decode(run: string, encoding: 'base64' | 'hex'): string {
  return Buffer.from(run, encoding).toString('latin1');
}

/** Base64 in one case cannot be decoded, but the characters that encode a secret alone are still known. */
const CORE = 6;

function holdsEncoded(text: string, secrets: Secret[]): boolean {
  return secrets.some(({ raw }) => cores(raw).some((core) => text.includes(core)));
}

/** The characters that encode a text in base64 at each alignment, independent of its surroundings; in lower case. */
function cores(text: string): string[] {
  const { length } = Buffer.from(text);
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]).toString('base64');
    const core = whole.slice(Math.ceil((before * 8) / 6), Math.floor(((before + length) * 8) / 6));
    return core.length < CORE ? [] : [core.toLowerCase()];
  });
}

/** Whether the password is in the text with other characters in between, or backwards. */
function isSpreadOver(text: string, { password }: Login): boolean {
  const wordCharacters = (each: string) => each.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '');
  const wanted = wordCharacters(password);
  if (wanted.length < CORE) return false;
  const packed = text.replace(/\s+/g, '');
  const backwards = [...packed].reverse().join('');
  return (
    [packed, backwards].some((each) =>
      [each, ...unescapings(each)].some((one) => wordCharacters(one).includes(wanted)),
    ) || [packed, backwards].some((each) => reveals(each, secretsOf({ user: '', password })))
  );
}
