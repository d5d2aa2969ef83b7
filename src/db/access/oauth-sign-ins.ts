import { and, eq, gt, sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';
import { oauthSignIns } from '../schema/index.ts';
import { digestOfToken } from './sessions.ts';

/*
 * A sign-in of an owner at a provider, from the button of the connect page to the return of the browser. It is found by the
 * random `state` that the provider returns, once.
 */

/** How long an owner may take, in minutes. */
const MINUTES = 15;

/** The id of a sign-in: the digest of its state. */
export const signInIdOf = (state: string): string => digestOfToken(state).toString('hex');

/** The column that holds what a sign-in began with, for sealing it. */
export const signInLocation = (id: string) => ({ table: 'oauth_sign_ins', column: 'request', id });

/** Stores a sign-in that begins now. */
export async function saveSignIn(
  db: Queryable,
  signIn: { id: string; linkId: string; appId: string; request: Buffer },
): Promise<void> {
  await db.insert(oauthSignIns).values({ ...signIn, expiresAt: sql`now() + make_interval(mins => ${MINUTES})` });
}

/** Takes a sign-in, which is not found again. Undefined: the state is unknown, was used, or is too old. */
export async function takeSignIn(
  db: Queryable,
  id: string,
): Promise<{ linkId: string; appId: string; request: Buffer } | undefined> {
  const [row] = await db
    .delete(oauthSignIns)
    .where(and(eq(oauthSignIns.id, id), gt(oauthSignIns.expiresAt, sql`now()`)))
    .returning();
  return row;
}
