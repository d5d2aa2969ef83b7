import { sql } from 'drizzle-orm';
import type { EventType } from '../contract/events.ts';
import { newId } from '../new-id.ts';
import type { Tx } from './client.ts';
import { insertRows } from './insert-rows.ts';
import { deliveries, events as eventsTable } from './schema.ts';
import type { Writer } from './writes.ts';

/** Channel of LISTEN/NOTIFY that wakes the relay. */
export const DELIVERIES_CHANNEL = 'deliveries';

/** A change of one object. */
export interface NewEvent {
  type: EventType;
  /** id of the email, folder or account: events of one object are delivered in order */
  objectId: string;
  /** `data` of the envelope; made into text here, once */
  data: object;
  /** time of the change */
  createdAt: Date;
}

/**
 * Writes events and their deliveries in the transaction of the change that they report. The account's row is locked until
 * the commit, which makes `sequence` gapless and equal to commit order. The rows may be left to `writes`.
 * @throws Error when the account does not exist
 */
export async function recordEvents(tx: Tx, accountId: string, events: NewEvent[], writes: Writer = tx): Promise<void> {
  const { lastSequence, now, endpoints } = await takeSequence(tx, accountId, events);
  if (events.length === 0) return;
  const eventRows: (typeof eventsTable.$inferInsert)[] = [];
  const deliveryRows: (typeof deliveries.$inferInsert)[] = [];
  events.forEach((event, index) => {
    const eventId = newId('event');
    const sequence = lastSequence - events.length + 1 + index;
    const { type, objectId, createdAt } = event;
    eventRows.push({ id: eventId, accountId, type, sequence, objectId, data: JSON.stringify(event.data), createdAt });
    for (const endpoint of endpoints) {
      if (!endpoint.types.includes(event.type)) continue;
      deliveryRows.push({
        id: newId('delivery'),
        eventId,
        endpointId: endpoint.id,
        endpointUrl: endpoint.url,
        accountId,
        eventType: type,
        objectId,
        sequence,
        status: endpoint.enabled ? 'pending' : 'skipped',
        createdAt: now,
      });
    }
  });
  await insertRows(writes, eventsTable, eventRows);
  await insertRows(writes, deliveries, deliveryRows);
}

/** An endpoint that wants at least one of the events. */
interface Target {
  id: string;
  url: string;
  enabled: boolean;
  types: string[];
}

/**
 * Advances the account's sequence and reads, in the same statement, the endpoints that want these events; where one of
 * them is enabled the relay is woken at the commit. The time is that of the database, which has one clock: it grows with
 * the sequence, whichever process writes.
 */
async function takeSequence(tx: Tx, accountId: string, events: NewEvent[]) {
  const types = sql.param([...new Set(events.map((event) => event.type))]);
  const { rows } = await tx.execute<{ last: string; now: string; endpoints: Target[] | null }>(sql`
    with account as (
      update accounts set event_sequence = event_sequence + ${events.length} where id = ${accountId}
      returning event_sequence
    ),
    target as materialized (
      select id, url, enabled, trigger_events from webhook_endpoints
      where trigger_events && ${types}::text[] and (account_ids = '{}' or account_ids @> array[${accountId}::text])
    )
    select event_sequence as last, clock_timestamp() as now, (
      select json_agg(json_build_object('id', id, 'url', url, 'enabled', enabled, 'types', trigger_events) order by id)
      from target
    ) as endpoints,
      case when exists (select from target where enabled) then pg_notify(${DELIVERIES_CHANNEL}, '')::text end
    from account`);
  const row = rows[0];
  if (!row) throw new Error(`no account ${accountId}`);
  return { lastSequence: Number(row.last), now: new Date(row.now), endpoints: row.endpoints ?? [] };
}

/** A test event for one endpoint. */
export interface TestEvent {
  endpoint: { id: string; url: string };
  accountId: string;
  type: EventType;
  /** `data` of the envelope */
  data: object;
}

/**
 * Writes a test event and its one delivery; the id of the delivery. It counts in no sequence, is in no feed, and is an object
 * of its own: no other event waits for it.
 */
export async function recordTestEvent(tx: Tx, { endpoint, accountId, type, data }: TestEvent): Promise<string> {
  const [eventId, deliveryId] = [newId('event'), newId('delivery')];
  const createdAt = new Date();
  const both = { accountId, sequence: 0, test: true, objectId: eventId, createdAt };
  await tx.insert(eventsTable).values({ id: eventId, type, data: JSON.stringify(data), position: null, ...both });
  await tx.insert(deliveries).values({
    id: deliveryId,
    eventId,
    endpointId: endpoint.id,
    endpointUrl: endpoint.url,
    eventType: type,
    ...both,
  });
  await tx.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
  return deliveryId;
}
