import { ConfigError, integer, parsedUrl, type Setting, valueOf } from '../setting.ts';

const ADDRESS = /^[^\s@<>,;"]+@[^\s@<>,;"]+$/;

const ALERT_URL: Setting<string | undefined> = {
  meaning:
    'URL that gets a signed POST when [something breaks, and when it is over](operating.md#alerts). Needs `ALERT_SECRET`.',
  values: 'URL',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    return value === undefined ? undefined : parsedUrl(name, value, ['http:', 'https:']).href;
  },
};

const ALERT_SECRET: Setting<string | undefined> = {
  meaning: 'Signs the calls of `ALERT_URL` as [webhooks](webhooks.md) are signed.',
  values: '`whsec_` and 32 random bytes in base64',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined || /^whsec_[A-Za-z0-9+/]{43}=$/.test(value)) return value;
    throw new ConfigError(name, 'must be whsec_ and 32 random bytes in base64');
  },
};

const ALERT_EMAIL: Setting<string[]> = {
  meaning: 'Addresses that get the same by mail. Needs `ALERT_SMTP_URL`.',
  values: 'addresses, comma-separated',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    const addresses = (value ?? '').split(',').map((part) => part.trim());
    if (value === undefined) return [];
    if (addresses.every((address) => ADDRESS.test(address))) return addresses;
    throw new ConfigError(name, 'must be email addresses, separated by commas');
  },
};

export interface AlertSmtp {
  host: string;
  port: number;
  user: string;
  password: string;
  encryption: 'SSL' | 'STARTTLS' | 'NONE';
  /** the sender */
  from: string;
}

const ALERT_SMTP_URL: Setting<AlertSmtp | undefined> = {
  meaning:
    'SMTP server that sends these mails. `smtps://` is TLS from the start (port 465), `smtp://` is STARTTLS (port 587), or no ' +
    'TLS with `tls=none`. The sender is the user, unless `from` names one.',
  values: '`smtps://USER:PASSWORD@HOST:PORT?from=ADDRESS`',
  default: 'none',
  read(env, name) {
    const value = valueOf(env, name);
    if (value === undefined) return undefined;
    const url = parsedUrl(name, value, ['smtp:', 'smtps:']);
    const [user, password] = [decoded(url.username), decoded(url.password)];
    const from = url.searchParams.get('from') ?? user;
    if (user === '' || password === '') throw new ConfigError(name, 'must have a user and a password');
    if (!ADDRESS.test(from)) throw new ConfigError(name, 'must name the sender, such as ?from=alerts@example.com');
    const isImplicit = url.protocol === 'smtps:';
    const port = url.port === '' ? (isImplicit ? 465 : 587) : Number(url.port);
    const encryption = isImplicit ? 'SSL' : url.searchParams.get('tls') === 'none' ? 'NONE' : 'STARTTLS';
    // an IPv6 address is in brackets in a URL alone (RFC 3986 3.2.2)
    const host = url.hostname.replace(/^\[|\]$/g, '');
    return { host, port, user, password, encryption, from };
  },
};

/** A `%` that begins no escape, and escapes that are no UTF-8, stand for themselves (as in security/user-info.ts). */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}

/** Messages to operators. */
export const ALERTS = {
  ALERT_URL,
  ALERT_SECRET,
  ALERT_EMAIL,
  ALERT_SMTP_URL,
  ALERT_BACKLOG: integer('Waiting deliveries that are reported; `0`: none are.', 'deliveries', 10_000, [0, 1_000_000]),
};
