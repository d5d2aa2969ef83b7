import { and, eq, gt, sql } from 'drizzle-orm';
import type { Db, Queryable } from '../driver/client.ts';
import { oauthSignIns } from '../schema/index.ts';
import { digestOfToken } from './sessions.ts';

/*
 * A sign-in of an owner at a provider, from the button of the connect page to the return of the browser. It is found by the
 * random `state` that the provider returns; it counts once, and its result is stored for a browser that reloads the page.
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

/** A sign-in as it is stored. */
export interface StoredSignIn {
  linkId: string;
  appId: string;
  request: Buffer;
}

const isKnown = (id: string) => and(eq(oauthSignIns.id, id), gt(oauthSignIns.expiresAt, sql`now()`));

/** Undefined: the state is unknown, or is too old. */
export async function getSignIn(db: Queryable, id: string): Promise<StoredSignIn | undefined> {
  const [row] = await db.select().from(oauthSignIns).where(isKnown(id));
  return row;
}

/**
 * Reads a sign-in and stores what `change` makes of its request (undefined: nothing), one caller at a time.
 * @returns the sign-in before the change; undefined: the state is unknown, or is too old
 */
export async function changeSignIn(
  db: Db,
  id: string,
  change: (request: Buffer) => Buffer | undefined,
): Promise<StoredSignIn | undefined> {
  return db.transaction(async (tx) => {
    const [row] = await tx.select().from(oauthSignIns).where(isKnown(id)).for('update');
    const request = row && change(row.request);
    if (request) await tx.update(oauthSignIns).set({ request }).where(eq(oauthSignIns.id, id));
    return row;
  });
}
