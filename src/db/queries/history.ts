import type pg from 'pg';
import type { EventType } from '../../contract/events.ts';
import type { HistoryEntry, HistoryKind } from '../../contract/history.ts';
import { isoTime, nextAttemptAt, waitingFor } from './waiting-for.ts';

export interface HistoryPage {
  entries: HistoryEntry[];
  /** the sequence of the last event, when more follow; null: these are all */
  next: { date: Date; sequence: number } | null;
}

export interface HistoryQuery {
  accountId: string;
  /** an `email_…` or `acc_…` id */
  objectId: string;
  /** events of one page; each comes with all of its deliveries */
  limit: number;
  newestFirst: boolean;
  /** the sequence of the last event of the previous page; null: this is the first page */
  after: number | null;
  /** the id of the workflow that made a send */
  sendWorkflowId(sendId: string): string;
}

interface EventRow {
  id: string;
  type: EventType;
  sequence: string;
  created_at: Date;
  deliveries: HistoryEntry[];
}

/**
 * Reads the history of an object: when it was sent and ingested, its events, their deliveries with every attempt. Newest
 * first, it is the same from its end. Undefined when nothing is stored. It outlives the object: events are stored for 30 days.
 */
export async function readHistory(pool: pg.Pool, query: HistoryQuery): Promise<HistoryPage | undefined> {
  const { accountId, objectId, limit, newestFirst, after } = query;
  const { rows } = await pool.query<EventRow>({
    ...(newestFirst ? NEWEST_FIRST : OLDEST_FIRST),
    // always a number: the plan without values reads a range of the index
    values: [objectId, accountId, after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : 0), limit + 1],
  });
  const shown = rows.slice(0, limit);
  const hasMore = rows.length > limit;
  const isOldest = newestFirst ? !hasMore : after === null;
  const before = isOldest ? await beginnings(pool, query) : [];
  if (rows.length === 0 && before.length === 0) return undefined;
  const last = shown.at(-1);
  const entries = [...before, ...(newestFirst ? shown.toReversed() : shown).flatMap(entriesOf)];
  // stable: an event stays before its deliveries
  entries.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  return {
    entries: newestFirst ? entries.reverse() : entries,
    next: last && hasMore ? { date: last.created_at, sequence: Number(last.sequence) } : null,
  };
}

const INGESTED: readonly EventType[] = ['email.new', 'email.new.bounce', 'email.draft.new'];

/** The entries without an event: the send of an email, and its ingest where that made no event. */
async function beginnings(
  pool: pg.Pool,
  { accountId, objectId, sendWorkflowId }: HistoryQuery,
): Promise<HistoryEntry[]> {
  const { rows } = await pool.query<{ kind: 'send' | 'ingested'; at: Date; status: string | null }>({
    name: 'history-beginnings',
    text: `
      select 'send' as kind, created_at as at, state as status from sends where id = $1 and account_id = $2
      union all select 'ingested', created_at, null from emails where id = $1 and account_id = $2
        and not exists (select from events where object_id = $1 and account_id = $2 and type in ('${INGESTED.join("', '")}'))`,
    values: [objectId, accountId],
  });
  return rows.map(({ kind, at, status }) => ({
    at: at.toISOString(),
    kind,
    ...(status === null ? {} : { status, workflow_id: sendWorkflowId(objectId) }),
  }));
}

function entriesOf({ id, type, sequence, created_at: at, deliveries }: EventRow): HistoryEntry[] {
  const event = {
    at: at.toISOString(),
    kind: kindOf(type),
    event_id: id,
    event_type: type,
    sequence: Number(sequence),
  };
  return [event, ...deliveries.map((one) => ({ ...one, next_attempt_at: nextAttemptAt(one.waiting_for ?? null) }))];
}

function kindOf(type: EventType): HistoryKind {
  if (INGESTED.includes(type)) return 'ingested';
  return type.startsWith('email.') || type.startsWith('account.') ? 'changed' : 'event';
}

const eventsOf = (isNext: string, order: string) => `
  select e.id, e.type, e.sequence, e.created_at, (
    select coalesce(json_agg(json_build_object(
      'at', ${isoTime('e.created_at')}, 'kind', 'delivery', 'event_id', e.id, 'event_type', e.type,
      'delivery_id', d.id, 'endpoint_id', d.endpoint_id, 'status', d.status,
      'workflow_id', coalesce(p.workflow_id, d.workflow_id),
      'waiting_for', ${waitingFor('p', 'w')},
      'attempts', (
        select coalesce(json_agg(json_build_object('number', a.number, 'at', ${isoTime('a.at')}, 'http_status', a.http_status,
          'error', a.error, 'duration_ms', a.duration_ms) order by a.number), '[]')
        from delivery_attempts a where a.delivery_id = d.id)
    ) order by d.id), '[]')
    from deliveries d left join pending_deliveries p on p.delivery_id = d.id
      left join webhook_endpoints w on w.id = d.endpoint_id where d.event_id = e.id
  ) as deliveries
  from events e
  where e.object_id = $1 and e.account_id = $2 and e.sequence ${isNext} $3
  order by e.sequence ${order} limit $4`;

const OLDEST_FIRST = { name: 'history', text: eventsOf('>', 'asc') };
const NEWEST_FIRST = { name: 'history-newest-first', text: eventsOf('<', 'desc') };
