import { readDate } from '../contract/common.ts';
import { ApiError } from '../contract/errors.ts';
import type { OAuth2Credentials } from '../contract/oauth.ts';

/** A token endpoint, and the client that is registered there. */
export interface TokenClient {
  /** URL */
  tokenUrl: string;
  clientId: string;
  /** null: a public client */
  clientSecret: string | null;
  /** how the secret is sent (RFC 6749, 2.3.1): in the body, or in the header `Authorization` */
  secretIn: 'body' | 'header';
  /** of the requests; null: omitted */
  scope: string | null;
  /** the request names no client: an assertion does */
  anonymous?: true;
}

/** How tokens are obtained. */
export type Grant =
  | { kind: 'access_token'; accessToken: string; expiresAt: Date | null }
  | { kind: 'refresh_token'; refreshToken: string; client: TokenClient | { appId: string } }
  | { kind: 'client_credentials'; appId: string }
  /** `subject`: null: the user of the mailbox */
  | { kind: 'service_account'; appId: string; subject: string | null }
  | { kind: 'token_source'; url: string; secret: string | null };

const KINDS = ['access_token', 'refresh_token', 'grant', 'token_source_url'] as const;

/**
 * The grant that a caller's `credentials.oauth2` describes.
 * @throws ApiError invalid_parameters naming the fields that are missing or do not belong together
 */
export function grantOf(given: OAuth2Credentials): Grant {
  const [kind, ...others] = KINDS.filter((name) => given[name] !== undefined);
  if (kind === undefined || others.length > 0) {
    throw wrong(`credentials.oauth2 must have exactly one of ${KINDS.slice(0, -1).join(', ')} and ${KINDS.at(-1)}`);
  }
  switch (kind) {
    case 'access_token':
      return accessTokenGrant(only(given, kind, ['expires_at']));
    case 'refresh_token':
      return refreshTokenGrant(only(given, kind, given.app_id === undefined ? OWN_CLIENT : ['app_id']));
    case 'token_source_url':
      return tokenSourceGrant(only(given, kind, ['token_source_secret']));
    case 'grant':
      return appGrant(given);
  }
}

function accessTokenGrant({ access_token: value = '', expires_at: at }: OAuth2Credentials): Grant {
  const accessToken = token('access_token', value);
  return { kind: 'access_token', accessToken, expiresAt: at === undefined ? null : readDate(at) };
}

function refreshTokenGrant(given: OAuth2Credentials): Grant {
  const { refresh_token: value = '', app_id: appId } = given;
  const refreshToken = token('refresh_token', value);
  return { kind: 'refresh_token', refreshToken, client: appId === undefined ? ownClient(given) : { appId } };
}

function tokenSourceGrant(given: OAuth2Credentials): Grant {
  const { token_source_url: source = '', token_source_secret: secret = null } = given;
  return { kind: 'token_source', url: url('token_source_url', source), secret };
}

function appGrant(given: OAuth2Credentials): Grant {
  const isApplication = given.grant === 'client_credentials';
  const { app_id: appId, subject = null } = only(given, 'grant', isApplication ? ['app_id'] : ['app_id', 'subject']);
  if (appId === undefined) throw wrong('credentials.oauth2.grant needs app_id');
  return isApplication ? { kind: 'client_credentials', appId } : { kind: 'service_account', appId, subject };
}

const OWN_CLIENT = ['client_id', 'client_secret', 'token_url', 'scope'] as const;

/** The given fields, if they are `kind` and some of `fields`. */
function only(
  given: OAuth2Credentials,
  kind: keyof OAuth2Credentials,
  fields: readonly (keyof OAuth2Credentials)[],
): OAuth2Credentials {
  const names = Object.keys(given) as (keyof OAuth2Credentials)[];
  const other = names.find((name) => given[name] !== undefined && name !== kind && !fields.includes(name));
  if (other) throw wrong(`credentials.oauth2.${other} does not belong to this ${kind}`);
  return given;
}

function ownClient(given: OAuth2Credentials): TokenClient {
  const { client_id: clientId, token_url: tokenUrl, client_secret: secret = null, scope = null } = given;
  if (clientId === undefined || tokenUrl === undefined) {
    throw wrong('credentials.oauth2.refresh_token needs app_id, or client_id and token_url');
  }
  return { tokenUrl: url('token_url', tokenUrl), clientId, clientSecret: secret, secretIn: 'body', scope };
}

/** Control characters would end the fields of the login (RFC 7628, 3.1). */
function token(field: string, value: string): string {
  if (/[^\x20-\x7e]/.test(value)) throw wrong(`credentials.oauth2.${field} must be printable ASCII`);
  return value;
}

function url(field: string, value: string): string {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol))
    throw wrong(`credentials.oauth2.${field} must be a URL with https://`);
  return value;
}

function wrong(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
