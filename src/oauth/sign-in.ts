import * as oauth from 'oauth4webapi';
import type { SignIn } from '../contract/oauth.ts';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import { clientOf, isForSignIns } from './obtain.ts';
import { presetOf, SHARED_TENANTS } from './presets.ts';
import { type Issued, requestToken } from './request.ts';

/** The secrets of one sign-in: `state` binds the response to it, `codeVerifier` the code (PKCE, RFC 7636). */
export interface SignInSecrets {
  state: string;
  codeVerifier: string;
}

export function newSignInSecrets(): SignInSecrets {
  return { state: oauth.generateRandomState(), codeVerifier: oauth.generateRandomCodeVerifier() };
}

/**
 * The app by which owners sign in, of those of one host, oldest first: one that works, then the one that the most users can sign in
 * with, then the oldest. Undefined: owners can sign in with none of them.
 */
export function signInAppOf(apps: readonly StoredApp[]): StoredApp | undefined {
  const rankOf = ({ tenant }: StoredApp) => {
    const rank = SHARED_TENANTS.indexOf(tenant ?? 'common');
    return rank === -1 ? SHARED_TENANTS.length : rank;
  };
  const [best] = apps
    .filter((app) => app.endpoints.authorizationUrl !== null && isForSignIns(app))
    .sort(
      (one, other) =>
        Number(one.failingSince !== null) - Number(other.failingSince !== null) || rankOf(one) - rankOf(other),
    );
  return best;
}

/** Where the owner of `address` signs in; undefined: the app has no such page. */
export async function authorizationUrl(
  app: StoredApp,
  { state, codeVerifier }: SignInSecrets,
  { redirectUrl, address }: { redirectUrl: string; address: string },
): Promise<string | undefined> {
  if (app.endpoints.authorizationUrl === null) return undefined;
  const url = new URL(app.endpoints.authorizationUrl);
  const preset = presetOf(app.provider, { tenant: app.tenant ?? 'common', cloud: app.cloud ?? 'global' });
  const parameters = {
    ...preset?.parameters,
    response_type: 'code',
    client_id: app.clientId,
    redirect_uri: redirectUrl,
    scope: app.scope,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
    login_hint: address,
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/**
 * Reads the response of the provider, as the query of the redirect.
 * `error` and `description`: as the provider names it (RFC 6749, 4.1.2.1), or `invalid_response` when the response is not that of
 * this sign-in: wrong state, or an `iss` of another server (RFC 9207)
 */
export function readResponse(
  app: StoredApp,
  query: URLSearchParams,
  state: string,
): { code: string } | { error: string; description: string } {
  const { issuer } = app.endpoints;
  const iss = query.get('iss');
  const server = { issuer: issuer ?? iss ?? app.endpoints.tokenUrl };
  try {
    const parameters = oauth.validateAuthResponse(server, { client_id: app.clientId }, query, state);
    return { code: parameters.get('code') ?? '' };
  } catch (error) {
    if (!(error instanceof oauth.AuthorizationResponseError)) return { error: 'invalid_response', description: '' };
    return { error: error.error, description: error.error_description ?? '' };
  }
}

/** Exchanges the code of a sign-in for tokens. @throws NoToken */
export function exchangeCode(fetch: OutboundFetch, app: StoredApp, signIn: SignIn): Promise<Issued> {
  const { code, code_verifier, redirect_url: redirect_uri } = signIn;
  return requestToken(fetch, clientOf(app), 'authorization_code', { code, code_verifier, redirect_uri });
}

/** Claims of an ID token that may hold the address of the user. */
const ADDRESSES = ['email', 'preferred_username', 'upn'];

/**
 * The addresses that an ID token names, in lower case; none without such a claim. Its signature is not checked: it came from
 * the token endpoint itself (OpenID Connect Core, 3.1.3.7).
 */
export function addressesIn(idToken: string | null): string[] {
  if (idToken === null) return [];
  try {
    const claims = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString('utf8')) as Record<
      string,
      unknown
    >;
    return ADDRESSES.map((name) => claims[name]).flatMap((value) =>
      typeof value === 'string' && value.includes('@') ? [value.toLowerCase()] : [],
    );
  } catch {
    return [];
  }
}

/** Domains of Gmail, whose mailboxes have one name with any dots in it and anything after a plus. */
const GMAIL = new Set(['gmail.com', 'googlemail.com']);

/** Whether two addresses, in lower case, are those of one mailbox: Google has several for each. */
export function isSameMailbox(one: string, other: string): boolean {
  return mailboxNameOf(one) === mailboxNameOf(other);
}

function mailboxNameOf(address: string): string {
  const at = address.lastIndexOf('@');
  if (!GMAIL.has(address.slice(at + 1))) return address;
  const [name = ''] = address.slice(0, at).split('+');
  return `${name.replaceAll('.', '')}@gmail.com`;
}
