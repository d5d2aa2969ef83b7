import type { AuthIntent, Encryption, ServerLogin, ServerSettings } from '../contract/account.ts';
import { ApiError } from '../contract/errors.ts';
import type { ServerAddress } from '../discovery/providers.ts';
import type { Credentials } from '../mailbox/settings.ts';

export type SideName = 'imap' | 'smtp';

/** What is stored of a mailbox that is connected already; no passwords when they cannot be opened any more. */
export interface StoredSettings {
  userId: string;
  imap: ServerSettings;
  smtp: ServerSettings;
  passwords: Credentials | undefined;
}

type Intent = AuthIntent['credentials'];

/** Refuses what no header, no command line and no host name may hold. Throws ApiError naming the field. */
export function checkTexts(intent: AuthIntent): void {
  const { credentials, name } = intent;
  const texts: Record<string, string | undefined> = { name };
  for (const [at, block] of Object.entries({ '': credentials, 'imap.': credentials.imap, 'smtp.': credentials.smtp })) {
    texts[`credentials.${at}user`] = block?.user;
    texts[`credentials.${at}password`] = block?.password;
  }
  texts['credentials.imap.host'] = credentials.imap?.host;
  texts['credentials.smtp.host'] = credentials.smtp?.host;
  for (const [field, text] of Object.entries(texts)) {
    if (text !== undefined && /[\r\n\0]/.test(text)) throw invalid(`${field} must not hold line breaks or NUL`);
  }
}

/** The login address: what `user_id` and discovery go by. Undefined when the caller gave none. */
export function loginAddressOf(credentials: Intent): string | undefined {
  return credentials.user ?? credentials.imap?.user ?? credentials.smtp?.user;
}

/**
 * One side as the caller gave it: left-out user and password are those at the top. Undefined when the side was left
 * out as a whole. On a reconnect, a value that is left out everywhere stays as stored.
 * Throws ApiError naming the field that is missing or wrong.
 */
export function givenSide(side: SideName, credentials: Intent, stored?: StoredSettings): ServerLogin | undefined {
  const block = credentials[side];
  if (!block) return undefined;
  const server = {
    host: block.host,
    port: block.port,
    encryption: encryptionOf(side, block.encryption, block.port),
  };
  return {
    ...server,
    user: block.user ?? credentials.user ?? stored?.[side].user ?? missing(side, 'user'),
    password: block.password ?? credentials.password ?? passwordFor(side, server, stored),
  };
}

/**
 * The stored password of one side, for the server that it was stored for. Whoever has an API key could otherwise have it
 * sent to a server of his own, or over a connection that can be listened to.
 * Throws ApiError naming the field when the server is another one, or has a weaker encryption, or nothing is stored.
 */
function passwordFor(side: SideName, server: ServerAddress, stored: StoredSettings | undefined): string {
  const password = storedPassword(side, stored);
  if (stored === undefined || password === undefined) return missing(side, 'password');
  const { host, port, encryption } = stored[side];
  const isSameServer = host.toLowerCase() === server.host.toLowerCase() && port === server.port;
  if (isSameServer && STRENGTH[server.encryption] >= STRENGTH[encryption]) return password;
  throw invalid(
    `credentials.${side}.password is needed (or credentials.password): the stored one is used only for the stored host, ` +
      'port and an encryption that is no weaker',
  );
}

/** STARTTLS begins in clear, where somebody in between may interfere. */
const STRENGTH: Record<Encryption, number> = { NONE: 0, STARTTLS: 1, SSL: 2 };

/**
 * One side as it is stored, with the password at the top where that is this side's: always for IMAP, for SMTP unless
 * it had been connected with a password of its own. An IMAP user at the top that is not the stored one (nor the login
 * address that stands for it) makes it another mailbox.
 */
export function storedSide(side: SideName, credentials: Intent, stored: StoredSettings): ServerLogin {
  const { passwords, userId } = stored;
  const saved = stored[side];
  const login = side === 'imap' ? credentials.user : undefined;
  const isSameUser = login === undefined || [userId, saved.user.toLowerCase()].includes(login.toLowerCase());
  const ownPassword = side === 'smtp' && passwords && passwords.smtpPassword !== passwords.imapPassword;
  const newPassword = ownPassword ? undefined : credentials.password;
  return {
    ...saved,
    user: isSameUser ? saved.user : login,
    password: newPassword ?? storedPassword(side, stored) ?? missing(side, 'password'),
  };
}

/** One side on a server that discovery found. */
export function discoveredSide(side: SideName, credentials: Intent, found: ServerAddress): ServerLogin {
  return {
    host: found.host,
    port: found.port,
    encryption: found.encryption,
    user: found.user ?? loginAddressOf(credentials) ?? missing(side, 'user'),
    password: credentials.password ?? missing(side, 'password'),
  };
}

/** An error for servers that were left out and not discovered. */
export function notFound(sides: SideName[]): ApiError {
  const blocks = sides.map((side) => `credentials.${side}`).join(' and ');
  return invalid(`the mail servers of this address are not known: give ${blocks} with host, port and encryption`);
}

/** An error in what the caller sent. */
export function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}

const BY_PORT: Record<number, Encryption> = {
  993: 'SSL',
  465: 'SSL',
  143: 'STARTTLS',
  587: 'STARTTLS',
  25: 'STARTTLS',
};
const BY_NAME: Record<string, Encryption> = { ssl: 'SSL', tls: 'SSL', starttls: 'STARTTLS', none: 'NONE' };

/** The contract's spelling of an encryption; left out or `default`: by the port, SSL on ports of no fixed meaning. */
export function encryptionOf(side: SideName, given: string | undefined, port: number): Encryption {
  const name = (given ?? 'default').toLowerCase();
  if (name === 'default') return BY_PORT[port] ?? 'SSL';
  const encryption = Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined;
  if (!encryption) throw invalid(`credentials.${side}.encryption must be ssl, tls, starttls, default or none`);
  return encryption;
}

function storedPassword(side: SideName, stored: StoredSettings | undefined): string | undefined {
  return side === 'imap' ? stored?.passwords?.imapPassword : stored?.passwords?.smtpPassword;
}

function missing(side: SideName, field: 'user' | 'password'): never {
  throw invalid(`credentials.${field} is missing (or credentials.${side}.${field})`);
}
