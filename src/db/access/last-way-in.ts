import { and, eq, isNotNull, isNull, like, or, sql } from 'drizzle-orm';
import { ApiError } from '../../contract/errors.ts';
import { ID_PREFIXES } from '../../contract/ids.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { apiKeys, invitedPersons } from '../schema/index.ts';

/*
 * The ways in that remain: keys with full access that do not expire, and invited admins who have a password. People of the
 * identity provider are none, since it may be away, or name no admin any longer.
 */

/** Serializes changes that may close a way in. */
const LOCK = 7_364_218_096;

/**
 * Makes a change of a key or a person in a transaction.
 * @throws ApiError forbidden, with nothing changed, when it would close the last way in
 */
export async function keepWayIn<T>(db: Db, change: (tx: Queryable) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${LOCK})`);
    const before = await hasWayIn(tx);
    const result = await change(tx);
    if (before && !(await hasWayIn(tx))) {
      throw new ApiError(
        'forbidden',
        'no one could administer this installation afterwards: first create a key with full access that does not expire, or have another admin choose a password',
      );
    }
    return result;
  });
}

async function hasWayIn(db: Queryable): Promise<boolean> {
  const isKey = like(apiKeys.id, `${ID_PREFIXES.apiKey}\\_%`);
  const hasAll = and(eq(apiKeys.permissions, 'full'), isNull(apiKeys.accountIds), isNull(apiKeys.expiresAt));
  const rows = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .leftJoin(invitedPersons, eq(invitedPersons.id, apiKeys.id))
    .where(and(hasAll, or(isKey, isNotNull(invitedPersons.password))))
    .limit(1);
  return rows.length > 0;
}
