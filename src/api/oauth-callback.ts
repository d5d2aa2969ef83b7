import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AuthIntent } from '../contract/account.ts';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import { getApp } from '../db/queries/oauth-apps.ts';
import { saveSignIn, signInIdOf, signInLocation, takeSignIn } from '../db/access/oauth-sign-ins.ts';
import { authorizationUrl, newSignInSecrets, readResponse } from '../oauth/sign-in.ts';
import type { Secrets } from '../security/secrets.ts';
import type { ApiDeps } from './deps.ts';
import { limitCalls } from './http/limit-calls.ts';
import { sendLead } from './lead.ts';

/*
 * A sign-in from the connect page: the browser goes to the provider with a random state, and returns to the callback with that
 * state and a code. A cookie ties both to one browser; a worker exchanges the code.
 */

const PATH = '/connect/oauth/callback';
const COOKIE = 'email_api_sign_in';
const CALLS_PER_MINUTE = 60;

/** The redirect address of every app. */
export const redirectUrlOf = (publicUrl: string): string => `${publicUrl}${PATH}`;

/** What a sign-in began with; sealed while the owner is at the provider. */
interface SignInRequest {
  state: string;
  codeVerifier: string;
  /** of the cookie */
  browser: string;
  /** token of the link */
  token: string;
  credentials: AuthIntent['credentials'];
}

/** The result of a sign-in, for the connect page. */
export interface Returned {
  linkId: string;
  token: string;
  credentials: AuthIntent['credentials'];
  /** `error`: a code for the page */
  result: { signIn: { app_id: string; code: string; code_verifier: string; redirect_url: string } } | { error: string };
}

/** Begins a sign-in at the provider of `app`. @returns where the browser goes; undefined: the app has no such page */
export async function beginSignIn(
  { db, secrets, settings }: Pick<ApiDeps, 'db' | 'secrets' | 'settings'>,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  app: StoredApp,
  link: { id: string; token: string; credentials: AuthIntent['credentials'] },
): Promise<string | undefined> {
  const fresh = newSignInSecrets();
  const redirectUrl = redirectUrlOf(settings.publicUrl);
  const url = await authorizationUrl(app, fresh, { redirectUrl, address: link.credentials.user ?? '' });
  if (url === undefined) return undefined;
  const browser = newSignInSecrets().state;
  const id = signInIdOf(fresh.state);
  const { token, credentials } = link;
  const began: SignInRequest = { ...fresh, browser, token, credentials };
  const sealed = secrets.seal(signInLocation(id), JSON.stringify(began));
  await saveSignIn(db, { id, linkId: link.id, appId: app.id, request: sealed });
  const secure = request.protocol === 'https' || settings.publicUrl.startsWith('https:');
  // the provider's page sends the browser back: with Strict it would have no cookie
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Lax', ...(secure ? ['Secure'] : []), 'Max-Age=900'];
  reply.header('Set-Cookie', `${COOKIE}=${browser}; ${attributes.join('; ')}`);
  return url;
}

/** Serves the callback; `finish` connects the mailbox and returns where the browser goes. */
export function serveOAuthCallback(
  app: FastifyInstance,
  deps: ApiDeps,
  finish: (request: FastifyRequest, returned: Returned) => Promise<string>,
): void {
  const limit = limitCalls(CALLS_PER_MINUTE);
  const lost = `${deps.settings.publicUrl}/connect/lost`;

  app.get(PATH, { schema: { hide: true } }, async (request, reply) => {
    limit(request.ip);
    const query = new URL(request.url, deps.settings.publicUrl).searchParams;
    const returned = await readReturn(deps, request, query);
    const next = returned ? await finish(request, returned) : `${lost}?error=expired`;
    return sendLead(reply.header('Set-Cookie', `${COOKIE}=; Path=/; Max-Age=0`), next);
  });
}

/** Undefined: no sign-in of this browser has that state. */
async function readReturn(
  { db, secrets, settings }: ApiDeps,
  request: FastifyRequest,
  query: URLSearchParams,
): Promise<Returned | undefined> {
  const state = query.get('state') ?? '';
  const id = signInIdOf(state);
  const signIn = await takeSignIn(db, id);
  const began = signIn && openRequest(secrets, id, signIn.request);
  const cookies = request.headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  if (!signIn || !began || !cookies.includes(`${COOKIE}=${began.browser}`)) return undefined;
  const { token, credentials, codeVerifier } = began;
  const of = { linkId: signIn.linkId, token, credentials };
  const app = await getApp(db, secrets, signIn.appId);
  if (!app) return { ...of, result: { error: 'provider_rejected' } };
  const response = readResponse(app, query, state);
  if ('error' in response) return { ...of, result: response };
  const { code } = response;
  const exchanged = {
    app_id: app.id,
    code,
    code_verifier: codeVerifier,
    redirect_url: redirectUrlOf(settings.publicUrl),
  };
  return { ...of, result: { signIn: exchanged } };
}

function openRequest(secrets: Secrets, id: string, sealed: Buffer): SignInRequest {
  return JSON.parse(secrets.open(signInLocation(id), sealed)) as SignInRequest;
}
