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

/** The `__Host-` prefix makes browsers reject the cookie from other hosts of the domain, and requires Secure. */
function cookieName({ protocol }: FastifyRequest, publicUrl: string): { name: string; secure: boolean } {
  const secure = protocol === 'https' || publicUrl.startsWith('https:');
  return { name: secure ? `__Host-${NAME}` : NAME, secure };
}

/** The session token in the cookie of a request. */
export function sessionToken(request: FastifyRequest, publicUrl: string): string | undefined {
  const start = `${cookieName(request, publicUrl).name}=`;
  const cookies = request.headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  return cookies.find((cookie) => cookie.startsWith(start))?.slice(start.length);
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
  const { name, secure } = cookieName(request, publicUrl);
  const end = session ? `Expires=${session.expiresAt.toUTCString()}` : 'Max-Age=0';
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', ...(secure ? ['Secure'] : []), end];
  reply.header('Set-Cookie', `${name}=${session?.token ?? ''}; ${attributes.join('; ')}`);
}
