import { asc, eq } from 'drizzle-orm';
import type { Database } from '../../../src/db/driver/client.ts';
import { events } from '../../../src/db/schema/index.ts';

/** The events in the outbox of one account, in order. */
export async function storedEvents({ db }: Pick<Database, 'db'>, accountId: string) {
  const rows = await db.select().from(events).where(eq(events.accountId, accountId)).orderBy(asc(events.sequence));
  return rows.map(({ type, data, objectId }) => ({
    type,
    objectId,
    data: JSON.parse(data) as Record<string, unknown>,
  }));
}
