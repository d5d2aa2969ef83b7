import { randomBytes } from 'node:crypto';
import { and, asc, eq, sql } from 'drizzle-orm';
import { type Person, PERMISSIONS_OF, ROLES } from '../../contract/access/person.ts';
import type { Permissions } from '../../contract/api-key.ts';
import { newId } from '../../new-id.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { apiKeys, invitedPersons, persons } from '../schema/index.ts';

/*
 * A person has a row in `api_keys` under their own id, with the digest of random bytes that are not stored: no key opens it, and
 * all that holds for keys (sessions, links, limits) holds for people. Removing it ends their sessions. People come from the
 * identity provider, or are invited (invited-persons.ts).
 */

/** A person of the identity provider, and what they may do. `issuer` and `subject` identify. */
export interface Identified {
  issuer: string;
  subject: string;
  name: string;
  email: string | null;
  permissions: Permissions;
}

/** Serializes sign-ins of one person. */
const LOCK = 7_364_218_094;

/** How records and emails name a person. */
export function labelOf({ name, email }: Pick<Identified, 'name' | 'email'>): string {
  return email === null || email === name ? name : `${name} <${email}>`;
}

/** Stores a person who has signed in, with what they may do from now on. Returns their id. */
export async function admitPerson(db: Db, person: Identified): Promise<string> {
  const { issuer, subject, name, email, permissions } = person;
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${`${issuer} ${subject}`}, ${LOCK}))`);
    const [known] = await tx.select({ id: persons.id }).from(persons).where(isPerson(person));
    const now = new Date();
    if (known) {
      await tx
        .update(apiKeys)
        .set({ name: labelOf(person), permissions })
        .where(eq(apiKeys.id, known.id));
      await tx.update(persons).set({ name, email, signedInAt: now }).where(eq(persons.id, known.id));
      return known.id;
    }
    return addPerson(tx, { issuer, subject, name, email, signedInAt: now }, permissions);
  });
}

/** Adds a person; returns their id. */
export async function addPerson(
  db: Queryable,
  person: Omit<typeof persons.$inferInsert, 'id'>,
  permissions: Permissions,
): Promise<string> {
  const id = newId('person');
  const name = labelOf({ name: person.name, email: person.email ?? null });
  await db.insert(apiKeys).values({ id, name, prefix: id, digest: randomBytes(32), permissions, issuedAt: new Date() });
  await db.insert(persons).values({ ...person, id });
  return id;
}

/** Removes a person with their sessions; returns whether there was one. */
export async function removePerson(db: Db, person: Pick<Identified, 'issuer' | 'subject'>): Promise<boolean> {
  const { rowCount } = await db
    .delete(apiKeys)
    .where(eq(apiKeys.id, sql`(select ${persons.id} from ${persons} where ${isPerson(person)})`));
  return rowCount === 1;
}

const isPerson = ({ issuer, subject }: Pick<Identified, 'issuer' | 'subject'>) =>
  and(eq(persons.issuer, issuer), eq(persons.subject, subject));

const columns = {
  ...{ id: persons.id, name: persons.name, email: persons.email, issuer: persons.issuer },
  ...{ permissions: apiKeys.permissions, issuedAt: apiKeys.issuedAt, signedInAt: persons.signedInAt },
  linkExpiresAt: invitedPersons.linkExpiresAt,
};

const people = (db: Queryable) =>
  db
    .select(columns)
    .from(persons)
    .innerJoin(apiKeys, eq(apiKeys.id, persons.id))
    .leftJoin(invitedPersons, eq(invitedPersons.id, persons.id));

/** A page of the people, oldest first. */
export async function listPersons(
  db: Queryable,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ data: Person[]; hasMore: boolean }> {
  const rows = await people(db)
    .orderBy(asc(apiKeys.issuedAt), asc(persons.id))
    .offset(offset)
    .limit(limit + 1);
  return { data: rows.slice(0, limit).map(toPerson), hasMore: rows.length > limit };
}

/** One person; undefined: the id is no person's. */
export async function getPerson(db: Queryable, id: string): Promise<Person | undefined> {
  const [row] = await people(db).where(eq(persons.id, id));
  return row && toPerson(row);
}

function toPerson(row: Awaited<ReturnType<typeof people>>[number]): Person {
  return {
    object: 'Person',
    id: row.id,
    name: row.name,
    email: row.email,
    role: ROLES.find((role) => PERMISSIONS_OF[role] === row.permissions) ?? 'viewer',
    source: row.issuer === null ? 'invitation' : 'identity_provider',
    created_at: row.issuedAt.toISOString(),
    last_signed_in_at: row.signedInAt?.toISOString() ?? null,
    invitation_expires_at: row.linkExpiresAt?.toISOString() ?? null,
  };
}
