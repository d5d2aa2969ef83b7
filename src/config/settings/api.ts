import {
  apiKey,
  cidrsOf,
  ConfigError,
  integer,
  parsedUrl,
  quote,
  type Setting,
  text,
  valueOf,
  wholeNumber,
} from '../setting.ts';

const MiB = 1024 * 1024;

/** The most API processes, and the most workers, of one machine. */
export const MAX_PROCESSES = 64;

/** URL of the API from outside, without a trailing slash. */
const PUBLIC_URL: Setting<string | undefined> = {
  meaning:
    'Address under which the outside reaches the API, with the path under which a proxy serves it. Tracking, connect and ' +
    'download links begin with it, and an `https://` address restricts the session cookie to HTTPS.',
  values: 'URL without a query',
  default: '`http://HOST:PORT`',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined) return undefined;
    const { search, hash } = parsedUrl(name, value, ['http:', 'https:']);
    if (search !== '' || hash !== '') throw new ConfigError(name, 'must have no query');
    return value.replace(/\/+$/, '');
  },
};

/** Which X-Forwarded-For is trusted: none, any, that of the last so many proxies, or that of these networks. */
const TRUST_PROXY: Setting<boolean | number | string[]> = {
  meaning:
    'Proxies whose `X-Forwarded-For` is believed. It names the address of the caller for limits by address, the audit log ' +
    'and the opens of tracked mail. See [behind a proxy](security.md#behind-a-proxy).',
  values:
    '`false`: none; networks (CIDRs, comma-separated); the number of proxies, 1 to 100, if no call can bypass them; `true`: any',
  default: '`false`',
  read(env, name) {
    const value = valueOf(env, name)?.toLowerCase() ?? 'false';
    if (value === 'false' || value === 'true') return value === 'true';
    if (/^\d+$/.test(value)) return wholeNumber(env, name, [1, 100]) ?? false;
    if (/^[\d.:a-f/, ]+$/.test(value) && value.includes('/')) return cidrsOf(env, name);
    throw new ConfigError(
      name,
      `must be true, false, a number of proxies or a list such as 10.0.0.0/8,fd00::/8, not ${quote(value)}`,
    );
  },
};

const BRAND_COLOR: Setting<string | null> = {
  meaning: 'Colour of the connect page.',
  values: 'colour, `#1a56db`',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name) ?? null;
    if (value !== null && !/^#[0-9a-f]{6}$/i.test(value)) {
      throw new ConfigError(name, `must be a color such as #1a56db, not ${quote(value)}`);
    }
    return value;
  },
};

const BRAND_LOGO_URL: Setting<string | null> = {
  meaning: 'Logo on the connect page, loaded by the browser of the owner.',
  values: '`https://` URL of an image',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    return value === undefined ? null : parsedUrl(name, value, ['https:']).href;
  },
};

/** Where the API is, and how it presents itself. */
export const API = {
  HOST: text('Address on which the API listens.', 'address', '127.0.0.1'),
  PORT: integer('Port on which the API listens.', 'port', 3000, [0, 65_535]),
  SERVERS: integer(
    'API processes that share the port. Each counts calls per minute (`MAX_…_PER_MINUTE…`) separately.',
    'processes',
    1,
    [1, MAX_PROCESSES],
  ),
  PUBLIC_URL,
  TRUST_PROXY,
  BOOTSTRAP_API_KEY: apiKey(
    'An API key with full access that exists from the first start on.',
    'made at the first start; `npm start` stores it in `DATA_DIR`, the API alone prints it once',
  ),
  BRAND_NAME: text('Name on the connect page.', 'text', 'Email API'),
  BRAND_COLOR,
  BRAND_LOGO_URL,
};

/** What callers may do. */
export const LIMITS = {
  MAX_REQUESTS_PER_MINUTE_PER_KEY: integer(
    'Calls under `/api/v1` that each API process answers with one key in a minute; `0`: no limit. Further ones get 429 with ' +
      '`Retry-After`; `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of every response show the state.',
    'calls a minute',
    0,
    [0, 10_000_000],
  ),
  MAX_REQUESTS_PER_MINUTE_PER_ADDRESS: integer(
    'Calls under `/api/v1` that each API process answers from one address (of IPv6: one network of 64 bits); `0`: no limit.',
    'calls a minute',
    0,
    [0, 10_000_000],
  ),
  MAX_WRONG_KEYS_PER_MINUTE: integer(
    'Calls with a wrong API key from one address; `0`: no limit. Further ones get 429; calls with a right key do not.',
    'calls a minute',
    60,
    [0, 1_000_000],
  ),
  MAX_BODY_BYTES: integer(
    'Largest request body of a send or a draft. Other bodies may have 1 MiB at most.',
    'bytes',
    40 * MiB,
    [1024, 1024 * MiB],
  ),
  MAX_ATTACHMENT_BYTES: integer('Decoded bytes of the files of one email to send, together.', 'bytes', 25 * MiB, [
    0,
    1024 * MiB,
  ]),
  MAX_UPLOADED_BYTES: integer(
    'Bytes of the uploads of one API key, or of one person, that have not expired, together. One upload may have ' +
      '`MAX_ATTACHMENT_BYTES`.',
    'bytes',
    1024 * MiB,
    [0, 1024 * 1024 * MiB],
  ),
  MAX_ATTACHMENTS: integer('Files of one email to send.', 'files', 100, [0, 10_000]),
  MAX_RECIPIENTS: integer('Recipients of one email to send.', 'recipients', 500, [1, 100_000]),
  MAX_SUBJECT_LENGTH: integer('Length of the subject of an email to send.', 'characters', 998, [1, 100_000]),
};
