import type { FastifyReply, FastifyRequest } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../../contract/errors.ts';
import { findSession } from '../../db/access/sessions.ts';

/*
 * The session cookie of the dashboard. Scripts cannot read it (HttpOnly), and pages of other sites cannot make browsers
 * send it (SameSite=Strict). State-changing calls must also come from a page of this origin, according to Sec-Fetch-Site,
 * or to Origin over plain HTTP, where browsers omit Sec-Fetch-Site: another host of the same domain and another port of
 * the same host are "same site" but not the same origin.
 */

const NAME = 'email_api_session';
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

interface Cookie {
  publicUrl: string;
  name: string;
}

/** The `__Host-` prefix makes browsers reject the cookie from other hosts of the domain, and requires Secure. */
function fullName({ protocol }: FastifyRequest, { publicUrl, name }: Cookie): { full: string; secure: boolean } {
  const secure = protocol === 'https' || publicUrl.startsWith('https:');
  return { full: secure ? `__Host-${name}` : name, secure };
}

/** The value of a cookie of a request. */
export function cookieOf(request: FastifyRequest, cookie: Cookie): string | undefined {
  const start = `${fullName(request, cookie).full}=`;
  const cookies = request.headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  return cookies.find((one) => one.startsWith(start))?.slice(start.length);
}

/** Sets a cookie that scripts cannot read; `end`: its attribute `Expires` or `Max-Age`. */
export function setCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  { value, sameSite, end, ...cookie }: Cookie & { value: string; sameSite: 'Strict' | 'Lax'; end: string },
): void {
  const { full, secure } = fullName(request, cookie);
  const attributes = ['Path=/', 'HttpOnly', `SameSite=${sameSite}`, ...(secure ? ['Secure'] : []), end];
  reply.header('Set-Cookie', `${full}=${value}; ${attributes.join('; ')}`);
}

export function clearCookie(request: FastifyRequest, reply: FastifyReply, cookie: Cookie): void {
  setCookie(request, reply, { ...cookie, value: '', sameSite: 'Strict', end: 'Max-Age=0' });
}

/** The session token in the cookie of a request. */
export function sessionToken(request: FastifyRequest, publicUrl: string): string | undefined {
  return cookieOf(request, { publicUrl, name: NAME });
}

/**
 * The digest of the key whose session the request carries; undefined without a session.
 * @throws ApiError unauthorized when the session has expired, or the request comes from another origin
 */
export async function keyOfSession(
  request: FastifyRequest,
  pool: pg.Pool,
  publicUrl: string,
): Promise<Buffer | undefined> {
  const token = sessionToken(request, publicUrl);
  if (token === undefined) return undefined;
  if (!SAFE_METHODS.has(request.method) && !isSameOrigin(request, publicUrl)) {
    throw new ApiError('unauthorized', 'a session cannot be used by pages of another origin');
  }
  const session = await findSession(pool, token);
  if (!session) throw new ApiError('unauthorized', 'the session has expired: sign in again');
  return session.keyDigest;
}

/** Whether the browser states that the request comes from a page of this origin. */
export function isSameOrigin({ headers, host }: FastifyRequest, publicUrl: string): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin } = headers;
  if (origin === undefined || !URL.canParse(origin)) return false;
  // a proxy can forward another Host than the one in the address bar
  return new URL(origin).host === host || origin === new URL(publicUrl).origin;
}

/** Sets the session cookie; `session` null: removes it. */
export function setSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  { session, publicUrl }: { session: { token: string; expiresAt: Date } | null; publicUrl: string },
): void {
  const cookie = { publicUrl, name: NAME };
  if (session === null) return clearCookie(request, reply, cookie);
  const end = `Expires=${session.expiresAt.toUTCString()}`;
  setCookie(request, reply, { ...cookie, value: session.token, sameSite: 'Strict', end });
}
