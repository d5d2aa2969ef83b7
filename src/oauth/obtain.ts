import { createHmac, createSign, randomUUID } from 'node:crypto';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import type { Grant, TokenClient } from './grant.ts';
import { type Issued, NoToken, requestToken } from './request.ts';

/** Whom a token is for. */
export interface TokenUser {
  /** null: the account is being connected */
  accountId: string | null;
  /** the login name at the IMAP server */
  user: string;
  /** the newest refresh token; null: none was issued since the grant was stored */
  refreshToken: string | null;
}

export interface ObtainDeps {
  fetch: OutboundFetch;
  /** undefined: it does not exist */
  findApp(id: string): Promise<StoredApp | undefined>;
}

/** The app that a grant uses; undefined: none. */
export function appIdOf(grant: Grant): string | undefined {
  switch (grant.kind) {
    case 'client_credentials':
    case 'service_account':
      return grant.appId;
    case 'refresh_token':
      return 'appId' in grant.client ? grant.client.appId : undefined;
    default:
      return undefined;
  }
}

/**
 * Requests an access token as the grant says.
 * @throws NoToken
 */
export async function obtainToken({ fetch, findApp }: ObtainDeps, grant: Grant, whom: TokenUser): Promise<Issued> {
  const appOf = async (id: string): Promise<StoredApp> => {
    const app = await findApp(id);
    if (!app) throw new NoToken({ status: 400, error: 'deleted_client' });
    return app;
  };
  switch (grant.kind) {
    case 'access_token': {
      const { accessToken, expiresAt } = grant;
      if (expiresAt && expiresAt.getTime() <= Date.now()) throw new NoToken({ status: 400, error: 'invalid_grant' });
      return { accessToken, expiresAt, refreshToken: null, idToken: null };
    }
    case 'refresh_token': {
      const client = 'appId' in grant.client ? clientOf(await appOf(grant.client.appId)) : grant.client;
      const used = whom.refreshToken ?? grant.refreshToken;
      const issued = await requestToken(fetch, client, 'refresh_token', { refresh_token: used });
      return { ...issued, refreshToken: issued.refreshToken ?? used };
    }
    case 'client_credentials': {
      const app = await appOf(grant.appId);
      const client = { ...clientOf(app), scope: app.applicationScope ?? app.scope };
      return { ...(await requestToken(fetch, client, 'client_credentials', {})), refreshToken: null };
    }
    case 'service_account': {
      const app = await appOf(grant.appId);
      return requestByAssertion(fetch, app, grant.subject ?? whom.user);
    }
    case 'token_source':
      return askSource(fetch, grant, whom);
  }
}

/** Whether an app has a client for people: a service account without a client secret has the id of that account only. */
export function isForSignIns({ serviceAccountEmail, clientSecret }: StoredApp): boolean {
  return serviceAccountEmail === null || clientSecret !== null;
}

/** The client of an app for refreshes, whose scope is that of the sign-in. */
export function clientOf({ endpoints, clientId, clientSecret, secretIn }: StoredApp): TokenClient {
  return { tokenUrl: endpoints.tokenUrl, clientId, clientSecret, secretIn, scope: null };
}

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** Google refuses a longer life. */
const ASSERTION_SECONDS = 3600;

/** A token for `subject` by the signature of a service account (RFC 7523, 2.1). */
async function requestByAssertion(fetch: OutboundFetch, app: StoredApp, subject: string): Promise<Issued> {
  const { serviceAccountEmail: iss, privateKey, endpoints } = app;
  if (iss === null || privateKey === null) throw new NoToken({ status: 400, error: 'no_service_account' });
  const iat = Math.floor(Date.now() / 1000);
  const scope = app.provider === 'google' ? googleScopes(app.scope) : app.scope;
  const claims = { iss, sub: subject, scope, aud: endpoints.tokenUrl, iat, exp: iat + ASSERTION_SECONDS };
  let assertion: string;
  try {
    assertion = signed(claims, privateKey);
  } catch (cause) {
    throw new NoToken({ status: 400, error: 'invalid_client', description: 'the private key cannot be read', cause });
  }
  const client: TokenClient = { ...clientOf(app), clientSecret: null, anonymous: true };
  return { ...(await requestToken(fetch, client, JWT_BEARER, { assertion })), refreshToken: null };
}

/** Without the scopes of sign-ins by people, which Google refuses here. */
const googleScopes = (scope: string) =>
  scope
    .split(' ')
    .filter((each) => each.startsWith('https:'))
    .join(' ');

function signed(claims: object, privateKey: string): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const text = `${encode({ alg: 'RS256', typ: 'JWT' })}.${encode(claims)}`;
  return `${text}.${createSign('RSA-SHA256').update(text).sign(privateKey, 'base64url')}`;
}

/** Response of a token source: that of EmailEngine's authentication server, with the time of expiry. */
interface SourceAnswer {
  user?: unknown;
  accessToken?: unknown;
  expires_at?: unknown;
}

/**
 * Asks the caller's own service: `GET <url>?account=…&proto=imap&user=…`. The headers are those of Standard Webhooks; what
 * they sign is the path with its query.
 */
async function askSource(
  fetch: OutboundFetch,
  { url, secret }: Extract<Grant, { kind: 'token_source' }>,
  { accountId, user }: TokenUser,
): Promise<Issued> {
  const target = new URL(url);
  if (accountId !== null) target.searchParams.set('account', accountId);
  target.searchParams.set('proto', 'imap');
  target.searchParams.set('user', user);
  let response: Response;
  try {
    response = await fetch(target, { headers: { accept: 'application/json', ...signature(secret, target) } });
  } catch (cause) {
    throw new NoToken({ cause });
  }
  const { status } = response;
  const answer = (await response.json().catch(() => null)) as SourceAnswer | null;
  const { accessToken, expires_at: expiresAt } = answer ?? {};
  if (status !== 200)
    throw new NoToken({ status, ...(status === 404 || status === 410 ? { error: 'invalid_grant' } : {}) });
  if (typeof accessToken !== 'string' || /[^\x20-\x7e]/.test(accessToken)) throw new NoToken({ status });
  // a token of another user would connect another mailbox
  if (typeof answer?.user === 'string' && answer.user.toLowerCase() !== user.toLowerCase()) {
    throw new NoToken({ status, error: 'other_user' });
  }
  const at = typeof expiresAt === 'string' ? new Date(expiresAt) : null;
  return { accessToken, refreshToken: null, idToken: null, expiresAt: at && Number.isFinite(at.getTime()) ? at : null };
}

function signature(secret: string | null, { pathname, search }: URL): Record<string, string> {
  if (secret === null) return {};
  const id = `msg_${randomUUID()}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${pathname}${search}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${digest}` };
}
