import type { FastifyReply, FastifyRequest } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../../contract/errors.ts';
import { findSession } from '../../db/access/sessions.ts';

/*
 * The cookie of a session of the dashboard. No script reads it (HttpOnly) and no other site's pages make browsers send it
 * (SameSite=Strict). What changes something must also come from a page of this origin, as the browser itself says in
 * Sec-Fetch-Site, or over plain HTTP, where that header is missing, in Origin: another site of the same domain, and
 * another port of the same host, are "same site" but not the same origin.
 */

const NAME = 'email_api_session';
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** The prefix makes browsers refuse it from other hosts of the domain, and asks for Secure. */
function cookieName({ protocol }: FastifyRequest, publicUrl: string): { name: string; secure: boolean } {
  const secure = protocol === 'https' || publicUrl.startsWith('https:');
  return { name: secure ? `__Host-${NAME}` : NAME, secure };
}

/** The token in the cookie of a request. */
export function sessionToken(request: FastifyRequest, publicUrl: string): string | undefined {
  const start = `${cookieName(request, publicUrl).name}=`;
  const cookies = request.headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  return cookies.find((cookie) => cookie.startsWith(start))?.slice(start.length);
}

/**
 * The digest of the key whose session the request bears; undefined when it bears none.
 * @throws ApiError unauthorized when it has ended, or the request comes from another origin
 */
export async function keyOfSession(
  request: FastifyRequest,
  pool: pg.Pool,
  publicUrl: string,
): Promise<Buffer | undefined> {
  const token = sessionToken(request, publicUrl);
  if (token === undefined) return undefined;
  if (!SAFE_METHODS.has(request.method) && !isSameOrigin(request, publicUrl)) {
    throw new ApiError('unauthorized', 'a session is not accepted from pages of another origin');
  }
  const session = await findSession(pool, token);
  if (!session) throw new ApiError('unauthorized', 'the session has ended: sign in again');
  return session.keyDigest;
}

/** Whether the browser says that the request comes from a page of this origin; false when it does not say. */
export function isSameOrigin({ headers, host }: FastifyRequest, publicUrl: string): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin } = headers;
  if (origin === undefined || !URL.canParse(origin)) return false;
  // a proxy may pass on another Host than the one in the address bar
  return new URL(origin).host === host || origin === new URL(publicUrl).origin;
}

/** Sets the cookie; `session` null: takes it away. */
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
