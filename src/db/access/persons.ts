import { randomBytes } from 'node:crypto';
import { and, eq, sql } from 'drizzle-orm';
import type { Permissions } from '../../contract/api-key.ts';
import { newId } from '../../new-id.ts';
import type { Db } from '../driver/client.ts';
import { apiKeys, persons } from '../schema/index.ts';

/*
 * A person who signs in at the identity provider has a row in `api_keys` under their own id, with the digest of random bytes
 * that are not stored: no key opens it, and all that holds for keys (sessions, links, limits) holds for people. Removing it ends
 * their sessions.
 */

/** A person, and what they may do. `issuer` and `subject` identify. */
export interface Person {
  issuer: string;
  subject: string;
  name: string;
  email: string | null;
  permissions: Permissions;
}

/** Serializes sign-ins of one person. */
const LOCK = 7_364_218_094;

/** How records and emails name a person. */
export function labelOf({ name, email }: Pick<Person, 'name' | 'email'>): string {
  return email === null || email === name ? name : `${name} <${email}>`;
}

/** Stores a person who has signed in, with what they may do from now on. Returns their id. */
export async function admitPerson(db: Db, person: Person): Promise<string> {
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
    const id = newId('person');
    const digest = randomBytes(32);
    await tx.insert(apiKeys).values({ id, name: labelOf(person), prefix: id, digest, permissions, issuedAt: now });
    await tx.insert(persons).values({ id, issuer, subject, name, email, signedInAt: now });
    return id;
  });
}

/** Removes a person with their sessions; returns whether there was one. */
export async function removePerson(db: Db, person: Pick<Person, 'issuer' | 'subject'>): Promise<boolean> {
  const { rowCount } = await db
    .delete(apiKeys)
    .where(eq(apiKeys.id, sql`(select ${persons.id} from ${persons} where ${isPerson(person)})`));
  return rowCount === 1;
}

const isPerson = ({ issuer, subject }: Pick<Person, 'issuer' | 'subject'>) =>
  and(eq(persons.issuer, issuer), eq(persons.subject, subject));
