import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { cookieOf, setCookie } from './http/session-cookie.ts';

/*
 * A cookie marks browsers in which a person has signed in with their password, or has chosen it: wrong passwords from elsewhere
 * do not lock these out. It is a MAC whose key is what is stored of the password, random salt included: it signs no one in,
 * allows no guesses, and is worthless once the password is replaced.
 */

const NAME = 'email_api_browser';
const LIFE_S = 365 * 24 * 60 * 60;

/** `stored`: what is stored of the password. */
interface Known {
  publicUrl: string;
  stored: string;
}

const markOf = (stored: string) => createHmac('sha256', stored).update(NAME).digest('base64url');

/** Marks the browser. */
export function markBrowser(request: FastifyRequest, reply: FastifyReply, { publicUrl, stored }: Known): void {
  const value = markOf(stored);
  setCookie(request, reply, { publicUrl, name: NAME, value, sameSite: 'Strict', end: `Max-Age=${LIFE_S}` });
}

/** Whether the browser is marked for this password. */
export function isKnownBrowser(request: FastifyRequest, { publicUrl, stored }: Known): boolean {
  const given = Buffer.from(cookieOf(request, { publicUrl, name: NAME }) ?? '');
  const expected = Buffer.from(markOf(stored));
  return given.length === expected.length && timingSafeEqual(given, expected);
}
