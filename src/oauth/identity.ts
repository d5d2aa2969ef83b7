import * as oauth from 'oauth4webapi';
import type { FetchInit, OutboundFetch } from '../security/outbound-fetch.ts';

/*
 * Sign-in of people at an identity provider (OpenID Connect Core 1.0): the authorization code flow with PKCE. The library checks
 * state, `iss`, nonce, audience, times, and the signature of the ID token.
 */

/** A client that the operator registered at the issuer. */
export interface IdentityClient {
  issuer: string;
  clientId: string;
  clientSecret?: string;
  scope: string;
  groupsClaim: string;
}

/** The secrets of one sign-in. */
export interface IdentitySecrets {
  state: string;
  nonce: string;
  codeVerifier: string;
}

/** A person, as the provider names them. `issuer` and `subject` identify; the rest may change. */
export interface Identity {
  issuer: string;
  subject: string;
  name: string;
  email: string | null;
  groups: string[];
}

export interface IdentityProvider {
  /** Where the person signs in. Rejects when the issuer does not describe itself. */
  authorizationUrl(secrets: IdentitySecrets, redirectUrl: string): Promise<string>;
  /** Who signed in, from the query of the redirect. Rejects unless all of it is in order. */
  identify(query: URLSearchParams, secrets: IdentitySecrets, redirectUrl: string): Promise<Identity>;
}

/** How long the description of the issuer is used, ms. */
const METADATA_MS = 10 * 60_000;
/** Difference between the clocks, s. */
const TOLERANCE_S = 30;

export function newIdentitySecrets(): IdentitySecrets {
  return {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    codeVerifier: oauth.generateRandomCodeVerifier(),
  };
}

/** Makes the provider of one client; `fetch` refuses http except to loopback. */
export function createIdentityProvider(fetch: OutboundFetch, registered: IdentityClient): IdentityProvider {
  const { clientId, scope } = registered;
  const client: oauth.Client = { client_id: clientId, [oauth.clockTolerance]: TOLERANCE_S };
  const options = optionsWith(fetch);
  const server = rememberServer(registered.issuer, options);

  return {
    async authorizationUrl({ state, nonce, codeVerifier }, redirectUrl) {
      const { authorization_endpoint: endpoint } = await server();
      if (endpoint === undefined) throw new Error('the issuer has no authorization endpoint');
      const url = new URL(endpoint);
      const parameters = {
        response_type: 'code',
        client_id: clientId,
        redirect_uri: redirectUrl,
        scope,
        state,
        nonce,
        code_challenge: await oauth.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      };
      for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
      return url.href;
    },
    async identify(query, { state, nonce, codeVerifier }, redirectUrl) {
      const as = await server();
      const parameters = oauth.validateAuthResponse(as, client, query, state);
      const proof = authenticationAt(as, registered.clientSecret);
      const response = await oauth.authorizationCodeGrantRequest(
        ...([as, client, proof, parameters, redirectUrl, codeVerifier, options] as const),
      );
      const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, {
        expectedNonce: nonce,
        requireIdToken: true,
      });
      await oauth.validateApplicationLevelSignature(as, response, options);
      const claims = oauth.getValidatedIdTokenClaims(tokens);
      if (!claims) throw new Error('the issuer returned no ID token');
      const rest = await userInfo(as, tokens.access_token, claims);
      return { ...identityOf({ ...rest, ...claims }, registered), issuer: claims.iss, subject: claims.sub };
    },
  };

  /** Claims that the ID token lacks; many providers send groups and addresses here only. */
  async function userInfo(
    as: oauth.AuthorizationServer,
    token: string,
    claims: oauth.IDToken,
  ): Promise<oauth.JsonObject> {
    const isComplete = [registered.groupsClaim, 'email'].every((name) => claims[name] !== undefined);
    if (isComplete || as.userinfo_endpoint === undefined) return {};
    const response = await oauth.userInfoRequest(as, client, token, options);
    return { ...(await oauth.processUserInfoResponse(as, client, claims.sub, response)) };
  }
}

function optionsWith(fetch: OutboundFetch) {
  return {
    [oauth.customFetch]: (url: string, init: FetchInit) => fetch(url, init),
    [oauth.allowInsecureRequests]: true,
  };
}

/** How the issuer describes itself (OpenID Connect Discovery 1.0); a failure is not remembered. */
function rememberServer(
  issuer: string,
  options: ReturnType<typeof optionsWith>,
): () => Promise<oauth.AuthorizationServer> {
  let known: { at: number; server: Promise<oauth.AuthorizationServer> } | undefined;
  async function discover(): Promise<oauth.AuthorizationServer> {
    const url = new URL(issuer);
    return oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { algorithm: 'oidc', ...options }));
  }
  return () => {
    if (known && Date.now() - known.at < METADATA_MS) return known.server;
    const server = discover();
    known = { at: Date.now(), server };
    server.catch(() => (known = undefined));
    return server;
  };
}

/** RFC 6749, 2.3.1: Basic unless the server says otherwise; forms, where it takes them, need no agreement on encoding. */
function authenticationAt(as: oauth.AuthorizationServer, secret: string | undefined): oauth.ClientAuth {
  if (secret === undefined) return oauth.None();
  const methods = as.token_endpoint_auth_methods_supported ?? [];
  return methods.includes('client_secret_post') ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret);
}

/** Longest name and address that are stored. */
const MAX_TEXT = 200;

function identityOf(
  claims: oauth.JsonObject,
  { groupsClaim }: IdentityClient,
): Pick<Identity, 'name' | 'email' | 'groups'> {
  const text = (...names: string[]) => {
    const found = names.map((name) => claims[name]).find((value) => typeof value === 'string' && value.trim() !== '');
    return typeof found === 'string' ? found.trim().slice(0, MAX_TEXT) : undefined;
  };
  const email = text('email') ?? null;
  const given = claims[groupsClaim];
  const groups = Array.isArray(given) ? given : [given];
  return {
    name: text('name', 'preferred_username') ?? email ?? 'unnamed',
    email,
    groups: groups.filter((group) => typeof group === 'string'),
  };
}
