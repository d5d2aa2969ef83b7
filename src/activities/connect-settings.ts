import type { AuthIntent, Encryption, ServerSettings } from '../contract/account.ts';
import type { OAuth2Credentials } from '../contract/oauth.ts';
import { ApiError } from '../contract/errors.ts';
import { type ServerAddress, withoutBlanks } from '../discovery/providers.ts';
import type { Credentials } from '../mailbox/settings.ts';
import { grantOf } from '../oauth/grant.ts';

export type SideName = 'imap' | 'smtp';

/** The stored settings of a connected mailbox; without credentials when they can no longer be decrypted. */
export interface StoredSettings {
  userId: string;
  imap: ServerSettings;
  smtp: ServerSettings;
  credentials: Credentials | undefined;
}

type Intent = AuthIntent['credentials'];

/** What one side logs in with. */
export type Secret = { password: string } | { oauth2: OAuth2Credentials };
export type SideLogin = ServerSettings & Secret;

/** Refuses characters that headers, commands and host names must not contain. @throws ApiError naming the field */
export function checkTexts(intent: AuthIntent): void {
  const { credentials, name } = intent;
  if (credentials.oauth2 && credentials.password !== undefined) {
    throw invalid(
      'credentials must not have both password and oauth2: give a side its own password where it needs one',
    );
  }
  if (credentials.oauth2) grantOf(credentials.oauth2);
  const texts: Record<string, string | undefined> = { name };
  for (const [at, block] of Object.entries({ '': credentials, 'imap.': credentials.imap, 'smtp.': credentials.smtp })) {
    texts[`credentials.${at}user`] = block?.user;
    texts[`credentials.${at}password`] = block?.password;
  }
  texts['credentials.imap.host'] = credentials.imap?.host;
  texts['credentials.smtp.host'] = credentials.smtp?.host;
  for (const [field, text] of Object.entries(texts)) {
    if (text !== undefined && /[\r\n\0]/.test(text)) throw invalid(`${field} must not contain line breaks or NUL`);
  }
}

/** The login address, from which `user_id` and discovery derive. Undefined when the caller gave none. */
export function loginAddressOf(credentials: Intent): string | undefined {
  return credentials.user ?? credentials.imap?.user ?? credentials.smtp?.user;
}

/**
 * One side as the caller gave it; user and password default to those at the top level. Undefined when the whole side was
 * left out. On a reconnect, a value that is left out everywhere stays as stored.
 * @throws ApiError naming the missing or wrong field
 */
export function givenSide(side: SideName, credentials: Intent, stored?: StoredSettings): SideLogin | undefined {
  const block = credentials[side];
  if (!block) return undefined;
  const user = block.user ?? credentials.user ?? stored?.[side].user ?? missing(side, 'user');
  const server = {
    host: block.host,
    port: block.port,
    encryption: encryptionOf(side, block.encryption, block.port),
  };
  return {
    ...server,
    user,
    ...(givenSecret(side, credentials, block.host) ?? secretFor(side, { ...server, user }, stored)),
  };
}

/** What the caller gives for one side with that host: its own password first. Undefined: nothing. */
function givenSecret(side: SideName, { password, oauth2, ...blocks }: Intent, host: string): Secret | undefined {
  const own = blocks[side]?.password ?? password;
  if (own !== undefined) return { password: withoutBlanks(own, host) };
  return oauth2 && { oauth2 };
}

/**
 * The stored password or grant of one side, for the server that it was stored for only. Otherwise the holder of an API key could have
 * it sent to another server, or over a connection that can be intercepted; or use the grant of an app, which may be valid for each of
 * its mailboxes, with another one.
 * @throws ApiError naming the field when the server differs, its encryption is weaker, or no password is stored
 */
function secretFor(
  side: SideName,
  server: ServerAddress & { user: string },
  stored: StoredSettings | undefined,
): Secret {
  const secret = storedSecret(side, stored);
  if (stored === undefined || secret === undefined) return missing(side, 'password');
  const { host, port, encryption, user } = stored[side];
  const isOfApp = 'oauth2' in secret && secret.oauth2.grant !== undefined;
  if (isOfApp && server.user.toLowerCase() !== user.toLowerCase()) {
    throw invalid(`credentials.${side}.user differs from the stored one: pass credentials.oauth2 or a password, too`);
  }
  const isSameServer = host.toLowerCase() === server.host.toLowerCase() && port === server.port;
  if (isSameServer && STRENGTH[server.encryption] >= STRENGTH[encryption]) return secret;
  throw invalid(
    `credentials.${side}.password is needed (or credentials.password or oauth2): the stored one is used only for the stored host, ` +
      'port and an encryption that is no weaker',
  );
}

/** STARTTLS begins in clear text, where an attacker on the path may interfere. */
const STRENGTH: Record<Encryption, number> = { NONE: 0, STARTTLS: 1, SSL: 2 };

/**
 * One side as it is stored, with the top-level password where it applies: always for IMAP; for SMTP unless that side was
 * connected with a separate password. A top-level IMAP user that is neither the stored user nor the login address names
 * another mailbox.
 */
export function storedSide(side: SideName, credentials: Intent, stored: StoredSettings): SideLogin {
  const { credentials: kept, userId } = stored;
  const saved = stored[side];
  const login = side === 'imap' ? credentials.user : undefined;
  const isSameUser = login === undefined || [userId, saved.user.toLowerCase()].includes(login.toLowerCase());
  const ownPassword = side === 'smtp' && kept?.smtpPassword !== undefined && kept.smtpPassword !== kept.imapPassword;
  return {
    ...saved,
    user: isSameUser ? saved.user : login,
    ...((ownPassword ? undefined : givenSecret(side, credentials, saved.host)) ??
      storedSecret(side, stored) ??
      missing(side, 'password')),
  };
}

/** One side with a server that discovery found. */
export function discoveredSide(side: SideName, credentials: Intent, found: ServerAddress): SideLogin {
  return {
    host: found.host,
    port: found.port,
    encryption: found.encryption,
    user: found.user ?? loginAddressOf(credentials) ?? missing(side, 'user'),
    ...(givenSecret(side, credentials, found.host) ?? missing(side, 'password')),
  };
}

/** The error for servers that were left out and not discovered. */
export function notFound(sides: SideName[]): ApiError {
  const blocks = sides.map((side) => `credentials.${side}`).join(' and ');
  return invalid(`the mail servers of this address are not known: give ${blocks} with host, port and encryption`);
}

/** An error in the caller's parameters. */
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

/** The contract's spelling of an encryption; left out or `default`: by the port, SSL on ports without a fixed meaning. */
export function encryptionOf(side: SideName, given: string | undefined, port: number): Encryption {
  const name = (given ?? 'default').toLowerCase();
  if (name === 'default') return BY_PORT[port] ?? 'SSL';
  const encryption = Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined;
  if (!encryption) throw invalid(`credentials.${side}.encryption must be ssl, tls, starttls, default or none`);
  return encryption;
}

function storedSecret(side: SideName, stored: StoredSettings | undefined): Secret | undefined {
  const { imapPassword, smtpPassword, oauth2 } = stored?.credentials ?? {};
  const password = side === 'imap' ? imapPassword : smtpPassword;
  return password === undefined ? oauth2 && { oauth2 } : { password };
}

function missing(side: SideName, field: 'user' | 'password'): never {
  const or = field === 'password' ? ', or credentials.oauth2' : '';
  throw invalid(`credentials.${field} is missing (or credentials.${side}.${field}${or})`);
}
