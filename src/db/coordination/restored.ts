import { sql } from 'drizzle-orm';
import type { Db, Queryable } from '../driver/client.ts';
import { EPOCH, recordEvents } from '../outbox.ts';

/*
 * A restore sets the store back: to receivers, events and sequence numbers of the lost period are known, to the store they
 * are not. From the restore on every event carries its time as `epoch`, and sequence numbers continue from there: milliseconds
 * since 1970 are greater than any number that was given out, and than the epoch of any earlier restore, even of one that the
 * same backup knows nothing of.
 */

/** What a restore did. */
export interface Restored {
  epoch: number;
  /** the latest time that the restored store knows */
  setBackTo: Date;
  accounts: number;
}

/**
 * Marks the store as restored now: a new epoch, sequence numbers above all that were given out, and an `account.restored` event for
 * each account. Call it once for each restore, before any other process uses the database.
 */
export async function markRestored(db: Db, restoredAt: Date): Promise<Restored> {
  return db.transaction(async (tx) => {
    const { rows } = await tx.execute<{ epoch: string; set_back_to: string }>(sql`
      insert into installation (name, value) values (${EPOCH}, ${String(restoredAt.getTime())})
      on conflict (name) do update
        set value = greatest(excluded.value::bigint, installation.value::bigint + 1)::text
      returning value as epoch, coalesce((
        select greatest((select max(created_at) from events), (select max(seen_at) from workers))
      ), now()) as set_back_to`);
    const epoch = Number(rows[0]?.epoch);
    const setBackTo = new Date(rows[0]?.set_back_to ?? restoredAt);
    const { rows: accounts } = await tx.execute<{ id: string }>(sql`
      update accounts set event_sequence = greatest(event_sequence, ${epoch}::bigint) returning id`);
    const data = { epoch, set_back_to: setBackTo.toISOString(), restored_at: restoredAt.toISOString() };
    for (const { id } of accounts) {
      await recordEvents(tx, id, [{ type: 'account.restored', objectId: id, data, createdAt: restoredAt }]);
    }
    return { epoch, setBackTo, accounts: accounts.length };
  });
}

/** When the store was last restored; undefined: never. */
export async function lastRestoredAt(db: Queryable): Promise<Date | undefined> {
  const { rows } = await db.execute<{ epoch: string }>(
    sql`select value as epoch from installation where name = ${EPOCH}`,
  );
  return rows[0] && new Date(Number(rows[0].epoch));
}
