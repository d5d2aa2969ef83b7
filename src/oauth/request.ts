import * as oauth from 'oauth4webapi';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import type { TokenFailure } from './faults.ts';
import type { TokenClient } from './grant.ts';

/** Tokens that a token endpoint has issued. */
export interface Issued {
  accessToken: string;
  /** null: it issued none */
  refreshToken: string | null;
  /** of the access token; null: unknown */
  expiresAt: Date | null;
  /** of OpenID Connect; null: none */
  idToken: string | null;
}

/** The request ended without a token. */
export class NoToken extends Error {
  override readonly name = 'NoToken';
  readonly failure: TokenFailure;
  constructor(failure: TokenFailure) {
    super('the token endpoint returned no token', { cause: failure.cause });
    this.failure = failure;
  }
}

/**
 * Requests tokens at a token endpoint (RFC 6749, 4.5 with any `grant_type`).
 * @throws NoToken
 */
export async function requestToken(
  fetch: OutboundFetch,
  client: TokenClient,
  grantType: string,
  parameters: Record<string, string>,
): Promise<Issued> {
  const began = Date.now();
  const { tokenUrl, clientId, scope } = client;
  let response: Response;
  try {
    response = await oauth.genericTokenEndpointRequest(
      { issuer: new URL(tokenUrl).origin, token_endpoint: tokenUrl },
      { client_id: clientId },
      authentication(client),
      grantType,
      { ...parameters, ...(scope === null ? {} : { scope }) },
      // http is refused by `fetch`, except to loopback where the settings allow it
      { [oauth.customFetch]: (url, init) => fetch(url, init), [oauth.allowInsecureRequests]: true },
    );
  } catch (cause) {
    throw new NoToken({ cause });
  }
  return issuedBy(response, began);
}

/** How a client proves itself to the authorization server. */
export function authentication({ secretIn, clientSecret: secret, anonymous }: TokenClient): oauth.ClientAuth {
  if (anonymous) return () => {};
  if (secret === null) return oauth.None();
  return secretIn === 'header' ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret);
}

/** Reads a token response (RFC 6749, 5.1). Some providers omit `token_type`, or send the lifetime as text. @throws NoToken */
async function issuedBy(response: Response, began: number): Promise<Issued> {
  const { status } = response;
  const body = (await response.json().catch(() => null)) as Record<string, unknown> | null;
  const text = (name: string) => (typeof body?.[name] === 'string' ? body[name] : undefined);
  const accessToken = text('access_token');
  if (status !== 200 || !accessToken) throw new NoToken(failureOf(response, body));
  const seconds = Number(body?.['expires_in'] ?? Number.NaN);
  return {
    accessToken,
    refreshToken: text('refresh_token') ?? null,
    expiresAt: seconds > 0 ? new Date(began + seconds * 1000) : null,
    idToken: text('id_token') ?? null,
  };
}

/** The failure that a response without what was asked for tells (RFC 6749, 5.2). */
export function failureOf(response: Response, body: Record<string, unknown> | null): TokenFailure {
  const text = (name: string) => (typeof body?.[name] === 'string' ? body[name] : undefined);
  const [error, description, retryAfterMs] = [text('error'), text('error_description'), patienceOf(response)];
  return {
    status: response.status,
    ...(error === undefined ? {} : { error }),
    ...(description === undefined ? {} : { description }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Longer pauses are not obeyed, ms. */
const MAX_PATIENCE_MS = 60 * 60_000;

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110, 10.2.3). */
function patienceOf({ headers }: Response): number | undefined {
  const given = headers.get('retry-after');
  if (given === null) return undefined;
  const ms = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now();
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), MAX_PATIENCE_MS) : undefined;
}
