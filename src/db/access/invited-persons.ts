import { randomBytes } from 'node:crypto';
import { and, eq, ne, sql } from 'drizzle-orm';
import { INVITATION_MS, type InvitePerson, PERMISSIONS_OF, type Role } from '../../contract/access/person.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { apiKeys, invitedPersons, persons, sessions } from '../schema/index.ts';
import { addPerson, labelOf } from './persons.ts';
import { createSession, digestOfToken } from './sessions.ts';

/*
 * invited (with a link) → signs in (with a password) → invited again: an administrator reset the password
 * A link is used by choosing a password, and replaced by the next one.
 */

const TOKEN_BYTES = 32;
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

/** The form of an address in which it is compared. */
export function loginOf(email: string): string {
  return email.trim().normalize('NFC').toLowerCase();
}

function newLink(): { token: string; linkDigest: Buffer; linkExpiresAt: Date } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, linkDigest: digestOfToken(token), linkExpiresAt: new Date(Date.now() + INVITATION_MS) };
}

/** Adds a person; returns their id and the token of their link, which is not stored. Undefined: the address has one. */
export async function invitePerson(
  db: Queryable,
  { name, email, role }: InvitePerson,
): Promise<{ id: string; token: string } | undefined> {
  const { token, ...link } = newLink();
  const login = loginOf(email);
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${LOCK})`);
    const taken = await tx
      .select({ id: invitedPersons.id })
      .from(invitedPersons)
      .where(eq(invitedPersons.login, login));
    if (taken.length > 0) return undefined;
    const id = await addPerson(tx, { name, email }, PERMISSIONS_OF[role]);
    await tx.insert(invitedPersons).values({ id, login, ...link });
    return { id, token };
  });
}

/** Serializes invitations. */
const LOCK = 7_364_218_095;

/** Locks a person before what hangs on them, in the order of a removal: otherwise the two could deadlock. */
async function lockPerson(tx: Queryable, id: string): Promise<void> {
  await tx.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, id)).for('update');
}

/** Whether someone is invited. */
export async function hasInvitedPersons(db: Queryable): Promise<boolean> {
  return (await db.select({ id: invitedPersons.id }).from(invitedPersons).limit(1)).length > 0;
}

/** Ends the password, or the link, and the sessions of an invited person; returns the token of a new link. `tx`: a transaction. */
export async function resetPassword(tx: Queryable, id: string): Promise<string | undefined> {
  const { token, ...link } = newLink();
  await lockPerson(tx, id);
  const { rowCount } = await tx
    .update(invitedPersons)
    .set({ password: null, ...link })
    .where(eq(invitedPersons.id, id));
  if (rowCount === 0) return undefined;
  await tx.delete(sessions).where(eq(sessions.apiKeyId, id));
  return token;
}

/** Gives an invited person another role, and ends their sessions. `tx`: a transaction. */
export async function changeRole(tx: Queryable, id: string, role: Role): Promise<void> {
  const { rowCount } = await tx
    .update(apiKeys)
    .set({ permissions: PERMISSIONS_OF[role] })
    .where(
      and(
        ...[eq(apiKeys.id, id), ne(apiKeys.permissions, PERMISSIONS_OF[role])],
        sql`exists (select from ${invitedPersons} where ${invitedPersons.id} = ${id})`,
      ),
    );
  if (rowCount !== 0) await tx.delete(sessions).where(eq(sessions.apiKeyId, id));
}

/** The person whose link has that token; undefined: it was used, has expired or was replaced, or never existed. */
export async function findInvited(
  db: Queryable,
  token: string,
): Promise<{ id: string; name: string; email: string } | undefined> {
  if (!TOKEN.test(token)) return undefined;
  const [row] = await db
    .select({ id: persons.id, name: persons.name, email: sql<string>`${persons.email}` })
    .from(invitedPersons)
    .innerJoin(persons, eq(persons.id, invitedPersons.id))
    .where(hasLink(token));
  return row;
}

const hasLink = (token: string) =>
  and(eq(invitedPersons.linkDigest, digestOfToken(token)), sql`${invitedPersons.linkExpiresAt} > now()`);

/** Stores the first password of a person, and uses up their link. False: the link has been used up or replaced. */
export async function choosePassword(db: Queryable, token: string, password: string): Promise<boolean> {
  const { rowCount } = await db
    .update(invitedPersons)
    .set({ password, linkDigest: null, linkExpiresAt: null })
    .where(hasLink(token));
  return rowCount === 1;
}

/** Whom an address or an id signs in, and with which password; null: none is chosen yet. Undefined: no invited person. */
export async function findLogin(
  db: Queryable,
  by: { login: string } | { id: string },
): Promise<{ id: string; label: string; password: string | null } | undefined> {
  const [row] = await db
    .select({ id: persons.id, name: persons.name, email: persons.email, password: invitedPersons.password })
    .from(invitedPersons)
    .innerJoin(persons, eq(persons.id, invitedPersons.id))
    .where('id' in by ? eq(invitedPersons.id, by.id) : eq(invitedPersons.login, by.login));
  return row && { id: row.id, label: labelOf(row), password: row.password };
}

/** Begins a session, unless the password was replaced or reset since it was compared (undefined). */
export async function signInWith(
  db: Db,
  { id, password }: { id: string; password: string },
): Promise<{ token: string; expiresAt: Date } | undefined> {
  return db.transaction(async (tx) => {
    // a reset waits for it, then finds the session
    await lockPerson(tx, id);
    const rows = await tx.select({ id: invitedPersons.id }).from(invitedPersons).where(has(id, password));
    if (rows.length === 0) return undefined;
    await tx.update(persons).set({ signedInAt: new Date() }).where(eq(persons.id, id));
    return createSession(tx, id);
  });
}

const has = (id: string, password: string) => and(eq(invitedPersons.id, id), eq(invitedPersons.password, password));

/** Replaces a password, and ends the other sessions of the person. False: it is no longer the one that was compared. */
export async function replacePassword(
  db: Db,
  { id, before, after }: { id: string; before: string; after: string },
  session: string | undefined,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    await lockPerson(tx, id);
    const { rowCount } = await tx.update(invitedPersons).set({ password: after }).where(has(id, before));
    if (rowCount === 0) return false;
    const isOther = session === undefined ? undefined : ne(sessions.digest, digestOfToken(session));
    await tx.delete(sessions).where(and(eq(sessions.apiKeyId, id), isOther));
    return true;
  });
}
