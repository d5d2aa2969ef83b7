import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sleep } from '../async.ts';
import type { AuthIntent } from '../contract/account.ts';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import { getApp } from '../db/queries/oauth-apps.ts';
import { changeSignIn, getSignIn, saveSignIn, signInIdOf, signInLocation } from '../db/access/oauth-sign-ins.ts';
import { judge } from '../oauth/faults.ts';
import { authorizationUrl, newSignInSecrets, readResponse } from '../oauth/sign-in.ts';
import type { Secrets } from '../security/secrets.ts';
import type { ApiDeps } from './deps.ts';
import { limitCalls } from './http/limit-calls.ts';
import { sendLead } from './lead.ts';

/*
 * A sign-in from the connect page: the browser goes to the provider with a random state, and returns to the callback with that
 * state and a code. A cookie for each sign-in ties both to one browser; a worker exchanges the code. A browser that returns again
 * with the same response, such as by a reload, is sent to where the first one led.
 */

const PATH = '/connect/oauth/callback';
const COOKIE = 'email_api_sign_in';
const CALLS_PER_MINUTE = 60;
/** How long a repeated return waits for the first one, which connects the mailbox, and how often it looks, ms. */
const WAIT_MS = 30_000;
const LOOK_EVERY_MS = 500;

/** The redirect address of every app. */
export const redirectUrlOf = (publicUrl: string): string => `${publicUrl}${PATH}`;

/** The cookie of one sign-in: an owner may have several pages open. */
const cookieOf = (id: string): string => `${COOKIE}_${id.slice(0, 16)}`;

/** What a sign-in began with; sealed. */
interface SignInRequest {
  state: string;
  codeVerifier: string;
  /** of the cookie */
  browser: string;
  /** token of the link */
  token: string;
  credentials: AuthIntent['credentials'];
  /** the browser has returned */
  isTaken?: true;
  /** where it was sent to then */
  next?: string;
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
  await saveSignIn(db, { id, linkId: link.id, appId: app.id, request: sealRequest(secrets, id, began) });
  const secure = request.protocol === 'https' || settings.publicUrl.startsWith('https:');
  // the provider's page sends the browser back: with Strict it would have no cookie
  const path = `Path=${new URL(redirectUrl).pathname}`;
  const attributes = [path, 'HttpOnly', 'SameSite=Lax', ...(secure ? ['Secure'] : []), 'Max-Age=900'];
  reply.header('Set-Cookie', `${cookieOf(id)}=${browser}; ${attributes.join('; ')}`);
  return url;
}

/** Connects the mailbox by the result of a sign-in; returns where the browser goes. */
type Finish = (request: FastifyRequest, returned: Returned) => Promise<string>;

/** Serves the callback. */
export function serveOAuthCallback(app: FastifyInstance, deps: ApiDeps, finish: Finish): void {
  const limit = limitCalls(CALLS_PER_MINUTE);

  app.get(PATH, { schema: { hide: true } }, async (request, reply) => {
    limit(request.ip);
    return sendLead(reply, await nextOf(deps, request, finish));
  });
}

/** Where a browser goes that returns from the provider. */
async function nextOf(deps: ApiDeps, request: FastifyRequest, finish: Finish): Promise<string> {
  const { db, secrets, settings } = deps;
  const query = new URL(request.url, settings.publicUrl).searchParams;
  const state = query.get('state') ?? '';
  const id = signInIdOf(state);
  const cookies = request.headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  const isOfBrowser = ({ browser }: SignInRequest) => cookies.includes(`${cookieOf(id)}=${browser}`);

  const signIn = await changeSignIn(db, id, (sealed) => {
    const began = openRequest(secrets, id, sealed);
    return isOfBrowser(began) && !began.isTaken ? sealRequest(secrets, id, { ...began, isTaken: true }) : undefined;
  });
  const began = signIn && openRequest(secrets, id, signIn.request);
  if (!signIn || !began || !isOfBrowser(began)) return `${settings.publicUrl}/connect/lost?error=expired`;
  const page = `${settings.publicUrl}/connect/${began.token}`;
  if (began.isTaken) return (await firstNextOf(deps, id, request)) ?? page;
  let next = page;
  try {
    const { token, credentials } = began;
    const result = await resultOf(deps, signIn.appId, began, query);
    return (next = await finish(request, { linkId: signIn.linkId, token, credentials, result }));
  } finally {
    const ended = sealRequest(secrets, id, { ...began, isTaken: true, next });
    // without it a repeated return leads to the page of the link, which shows how it ended
    await changeSignIn(db, id, () => ended).catch(() => {});
  }
}

/** Where the first return with that state led, once it has; undefined: it takes too long, or its process died. */
async function firstNextOf({ db, secrets }: ApiDeps, id: string, { raw }: FastifyRequest): Promise<string | undefined> {
  for (const until = performance.now() + WAIT_MS; ; ) {
    const signIn = await getSignIn(db, id);
    const next = signIn && openRequest(secrets, id, signIn.request).next;
    if (next !== undefined || !signIn || raw.socket.destroyed || performance.now() >= until) return next;
    await sleep(LOOK_EVERY_MS);
  }
}

/** What the provider says of a sign-in. */
async function resultOf(
  { db, secrets, settings, logger }: ApiDeps,
  appId: string,
  { state, codeVerifier }: SignInRequest,
  query: URLSearchParams,
): Promise<Returned['result']> {
  const app = await getApp(db, secrets, appId);
  if (!app) return { error: 'provider_rejected' };
  const response = readResponse(app, query, state);
  if ('error' in response) {
    const { error, description } = response;
    const { fault, detail } = judge({ status: 400, error, description });
    // an organization may have disabled the app
    if (fault !== 'app' && error !== 'unauthorized_client') return { error };
    logger.warn({ appId: app.id, detail }, 'provider refused an OAuth app at a sign-in');
    return { error: 'provider_rejected' };
  }
  const { code } = response;
  const redirectUrl = redirectUrlOf(settings.publicUrl);
  return { signIn: { app_id: app.id, code, code_verifier: codeVerifier, redirect_url: redirectUrl } };
}

function sealRequest(secrets: Secrets, id: string, request: SignInRequest): Buffer {
  return secrets.seal(signInLocation(id), JSON.stringify(request));
}

function openRequest(secrets: Secrets, id: string, sealed: Buffer): SignInRequest {
  return JSON.parse(secrets.open(signInLocation(id), sealed)) as SignInRequest;
}
