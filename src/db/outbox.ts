import { type SQL, sql } from 'drizzle-orm';
import type { EventType } from '../contract/events.ts';
import { newId } from '../new-id.ts';
import type { Tx } from './driver/client.ts';
import { insertRows } from './driver/insert-rows.ts';
import { statement } from './driver/statement.ts';
import { deliveries, events as eventsTable, pendingDeliveries } from './schema/index.ts';
import type { Writer } from './driver/writes.ts';

/** The row of `installation` with the time of the last restore, ms since 1970: see src/db/coordination/restored.ts. */
export const EPOCH = 'epoch';

/** Channel of LISTEN/NOTIFY that wakes the relay. */
export const DELIVERIES_CHANNEL = 'deliveries';

/**
 * The lines in which deliveries of one endpoint wait. Each line has its own turns: a replay delays no live
 * event. The line of manual retries is served even while the breaker of the endpoint is open.
 */
export const LINES = { manual: 0, live: 1, replay: 2 } as const;

/** A change of one object. */
export interface NewEvent {
  type: EventType;
  /** id of the email, folder or account: events of one object are delivered in order */
  objectId: string;
  /** `data` of the envelope; serialised here, once */
  data: object;
  /** time of the change */
  createdAt: Date;
}

/**
 * Writes events and their deliveries in the transaction of the change that they report. The account's row is locked until
 * the commit, which makes `sequence` gapless and equal to commit order. `writes` may defer the rows.
 * @throws Error when the account does not exist
 */
export async function recordEvents(tx: Tx, accountId: string, events: NewEvent[], writes: Writer = tx): Promise<void> {
  const types = events.map((event) => event.type);
  await writeEvents(await takeSequence(tx, accountId, types), events, writes);
}

/** The sequence numbers of an account's next events, and the endpoints that get them. */
export interface Sequence {
  accountId: string;
  /** how many events it numbers */
  count: number;
  /** the number of the last of these events */
  last: number;
  /** when the installation was last restored; null: never */
  epoch: number | null;
  /** the clock of the database, which grows with the sequence in all processes */
  now: Date;
  endpoints: Target[];
  /** the values of `read` */
  read: unknown[];
}

/** Writes events and their deliveries; number and types must be those that the sequence was taken with. */
export async function writeEvents(sequence: Sequence, events: NewEvent[], writes: Writer): Promise<void> {
  const { accountId, count, endpoints } = sequence;
  if (events.length !== count) throw new Error(`${events.length} events for ${count} numbers of ${accountId}`);
  const eventRows: (typeof eventsTable.$inferInsert)[] = [];
  const deliveryRows: (typeof deliveries.$inferInsert)[] = [];
  const pendingRows: (typeof pendingDeliveries.$inferInsert)[] = [];
  events.forEach((event, index) => {
    const eventId = newId('event');
    const number = sequence.last - events.length + 1 + index;
    const { type, objectId, createdAt } = event;
    const data = JSON.stringify(event.data);
    const { epoch } = sequence;
    eventRows.push({ id: eventId, accountId, type, sequence: number, epoch, objectId, data, createdAt });
    for (const endpoint of endpoints) {
      if (!endpoint.types.includes(event.type)) continue;
      const deliveryId = newId('delivery');
      deliveryRows.push({
        id: deliveryId,
        eventId,
        endpointId: endpoint.id,
        endpointUrl: endpoint.url,
        accountId,
        eventType: type,
        objectId,
        sequence: number,
        status: endpoint.enabled ? 'pending' : 'skipped',
        createdAt: sequence.now,
      });
      if (!endpoint.enabled) continue;
      pendingRows.push({ deliveryId, endpointId: endpoint.id, objectId, sequence: number, dueAt: sequence.now });
    }
  });
  await insertRows(writes, eventsTable, eventRows);
  await insertRows(writes, deliveries, deliveryRows);
  await insertRows(writes, pendingDeliveries, pendingRows);
}

/** An endpoint that wants at least one of the events. */
interface Target {
  id: string;
  url: string;
  enabled: boolean;
  types: string[];
}

const advance = statement('take_sequence', (accountId: string, events: EventType[], read: SQL) => {
  const types = sql.param([...new Set(events)]);
  return sql`
    with account as (
      update accounts set event_sequence = event_sequence + ${events.length} where id = ${accountId}
      returning event_sequence
    ),
    target as materialized (
      select id, url, enabled, trigger_events from webhook_endpoints
      where trigger_events && ${types}::text[] and (account_ids = '{}' or account_ids @> array[${accountId}::text])
    )
    select event_sequence as last, clock_timestamp() as now,
      (select value from installation where name = ${EPOCH}) as epoch, (
      select json_agg(json_build_object('id', id, 'url', url, 'enabled', enabled, 'types', trigger_events) order by id)
      from target
    ) as endpoints,
      case when exists (select from target where enabled) then pg_notify(${DELIVERIES_CHANNEL}, '')::text end,
      null::json as read
    from account
    union all select null, null, null, null, null, value from (${read}) r (value)`;
});

/**
 * Advances the account's sequence by events of these types and reads, in the same statement, the endpoints that want them;
 * where one of them is enabled the relay is woken at the commit. `read`: a query of values that are wanted besides, as JSON.
 * @throws Error when the account does not exist
 */
export async function takeSequence(
  tx: Tx,
  accountId: string,
  events: EventType[],
  read: SQL = sql`select null::json where false`,
): Promise<Sequence> {
  type Row =
    | { last: string; now: string; epoch: string | null; endpoints: Target[] | null; read: null }
    | { last: null; read: unknown };
  const { rows } = await tx.execute<Row>(advance(accountId, events, read));
  const row = rows.find(({ last }) => last !== null);
  if (!row || row.last === null) throw new Error(`no account ${accountId}`);
  const { last, now, epoch, endpoints } = row;
  const values = rows.flatMap((each) => (each.last === null ? [each.read] : []));
  return {
    accountId,
    count: events.length,
    last: Number(last),
    epoch: epoch === null ? null : Number(epoch),
    now: new Date(now),
    endpoints: endpoints ?? [],
    read: values,
  };
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
 * Writes a test event and its one delivery; returns the delivery's id. The event has no sequence number, is not in the
 * feed, and is its own object: no other event waits for it.
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
  await tx
    .insert(pendingDeliveries)
    .values({ deliveryId, endpointId: endpoint.id, objectId: eventId, sequence: 0, dueAt: sql`now()` });
  await tx.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
  return deliveryId;
}
