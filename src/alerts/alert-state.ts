import { sql } from 'drizzle-orm';
import type { AlertChannel, AlertedProblem, AlertKind, AlertMessage } from '../contract/overview.ts';
import type { Db, Queryable } from '../db/driver/client.ts';
import { newId } from '../new-id.ts';
import { problemsAt } from './problems.ts';
import { alertText } from './text.ts';

/*
 * A problem is open from when a look finds it until one no longer does. A message reports all that began and all that
 * ended since the previous one, so that a server with 500 mailboxes makes one message and not 500. It is stored in the
 * transaction that marks the problems as reported: each is in one message when it begins, and in one when it is over.
 *
 * problem  open → over; one that is over before it was reported is deleted
 * message  due → sent, or given up after a day; an attempt holds it for LEASE_MS, so that no other worker sends it
 */

export interface AlertTimes {
  /** a problem that is over sooner is not reported */
  settleMs: number;
  /** least time between two messages */
  gapMs: number;
}

export const ALERT_TIMES: AlertTimes = { settleMs: 30_000, gapMs: 5 * 60_000 };

/** Longer than an attempt takes. */
const LEASE_MS = 2 * 60_000;
/** No message is due later than this from now, by clocks of workers that differ by less than five minutes. */
const LONGEST_WAIT_MS = 35 * 60_000;
const RETRIES_MS = [15_000, 60_000, 5 * 60_000, 15 * 60_000, 30 * 60_000];
const GIVEN_UP_AFTER_MS = 24 * 60 * 60_000;
/** Problems that a message lists. */
const LISTED = 100;

export interface Look {
  backlog: number;
  channels: readonly AlertChannel[];
  /** address of the installation */
  installation: string;
  now: Date;
  times: AlertTimes;
}

/** Opens and closes problems, and makes the messages about them. Returns the number of messages. */
export async function lookForProblems(db: Db, look: Look): Promise<number> {
  return db.transaction(async (tx) => {
    // leaders may overlap for a moment
    await tx.execute(sql`select pg_advisory_xact_lock(hashtext('alerts'))`);
    await recordProblems(tx, look);
    return (await isMessageDue(tx, look)) ? makeMessages(tx, look) : 0;
  });
}

async function recordProblems(tx: Queryable, { backlog, now }: Look): Promise<void> {
  const at = now.toISOString();
  await tx.execute(sql`
    with found as (${problemsAt(now, backlog)}), opened as (
      insert into alerts (problem, kind, object_id, name, detail, server, count, since, opened_at)
      select problem, kind, object_id, name, detail, server, count, since, ${at}::timestamptz from found where opens
      on conflict (problem) where closed_at is null do update set count = excluded.count where alerts.count < excluded.count
    )
    update alerts set closed_at = ${at} where closed_at is null and problem not in (select problem from found)`);
  await tx.execute(sql`delete from alerts where closed_at is not null and opened_in is null`);
}

async function isMessageDue(tx: Queryable, { now, times }: Look): Promise<boolean> {
  // clocks of workers differ a little; what is far in the future is of a clock that was set back since
  const isRecent = (column: string, ms: number) =>
    sql`(${sql.identifier(column)} > ${timeAt(now, -ms)} and ${sql.identifier(column)} < ${timeAt(now, ms)})`;
  const { rows } = await tx.execute<{ due: boolean }>(sql`
    select exists (select from alerts where closed_at is null and opened_in is null and not ${isRecent('opened_at', times.settleMs)})
        or exists (select from alerts where closed_at is not null and closed_in is null) as due
    where not exists (select from alert_messages where ${isRecent('created_at', times.gapMs)})`);
  return rows[0]?.due ?? false;
}

function timeAt(now: Date, ms: number): ReturnType<typeof sql> {
  return sql`${new Date(now.getTime() + ms).toISOString()}::timestamptz`;
}

async function makeMessages(tx: Queryable, { channels, installation, now }: Look): Promise<number> {
  const ids = channels.map((channel) => ({ channel, id: newId('alert') }));
  const first = ids[0]?.id;
  if (first === undefined) return 0;
  const opened = await report(tx, sql`opened_in = ${first} where opened_in is null and closed_at is null`);
  const closed = await report(tx, sql`closed_in = ${first} where closed_in is null and closed_at is not null`);
  const at = now.toISOString();
  for (const { channel, id } of ids) {
    const body: AlertMessage = {
      object: 'Alert',
      id,
      created_at: at,
      installation,
      text: alertText(opened, closed, installation),
      opened: opened.slice(0, LISTED),
      opened_total: opened.length,
      closed: closed.slice(0, LISTED),
      closed_total: closed.length,
    };
    await tx.execute(sql`insert into alert_messages (id, channel, body, created_at, due_at)
      values (${id}, ${channel}, ${JSON.stringify(body)}::jsonb, ${at}, ${at})`);
  }
  return ids.length;
}

interface Row extends Record<string, unknown> {
  kind: AlertKind;
  object_id: string | null;
  name: string;
  detail: string;
  server: string;
  count: number;
  since: string;
  closed_at: string | null;
}

async function report(tx: Queryable, change: ReturnType<typeof sql>): Promise<AlertedProblem[]> {
  const { rows } = await tx.execute<Row>(sql`
    with reported as (update alerts set ${change} returning *) select * from reported order by since, id`);
  return rows.map((row) => ({
    kind: row.kind,
    id: row.object_id,
    name: row.name,
    detail: row.detail,
    server: row.server || null,
    count: row.count,
    since: new Date(row.since).toISOString(),
    ended_at: row.closed_at && new Date(row.closed_at).toISOString(),
  }));
}

export interface DueMessage {
  id: string;
  channel: AlertChannel;
  body: AlertMessage;
  createdAt: Date;
  /** with this one */
  attempts: number;
}

/** Takes a message that is due, by this clock or by one that was set back since, for one attempt; undefined: none is. */
export async function claimMessage(db: Queryable, now: Date): Promise<DueMessage | undefined> {
  const { rows } = await db.execute<{
    id: string;
    channel: AlertChannel;
    body: AlertMessage;
    created_at: string;
    attempts: number;
  }>(sql`
    update alert_messages set attempts = attempts + 1, due_at = ${timeAt(now, LEASE_MS)}
    where id = (
      select id from alert_messages where sent_at is null and failed_at is null
        and (due_at <= ${timeAt(now, 0)} or due_at > ${timeAt(now, LONGEST_WAIT_MS)})
      order by created_at, id limit 1 for update skip locked
    ) returning id, channel, body, created_at, attempts`);
  const row = rows[0];
  return row && { ...row, createdAt: new Date(row.created_at) };
}

/** Records the end of an attempt. `error` is null when it was sent. */
export async function settleMessage(
  db: Queryable,
  message: DueMessage,
  error: string | null,
  now: Date,
): Promise<'sent' | 'due' | 'failed'> {
  const at = now.toISOString();
  if (error === null) {
    await db.execute(sql`update alert_messages set sent_at = ${at}, error = null where id = ${message.id}`);
    return 'sent';
  }
  if (now.getTime() - message.createdAt.getTime() > GIVEN_UP_AFTER_MS) {
    await db.execute(sql`update alert_messages set failed_at = ${at}, error = ${error} where id = ${message.id}`);
    return 'failed';
  }
  const wait = RETRIES_MS[Math.min(message.attempts, RETRIES_MS.length) - 1] ?? 0;
  const due = new Date(now.getTime() + wait).toISOString();
  await db.execute(sql`update alert_messages set due_at = ${due}, error = ${error} where id = ${message.id}`);
  return 'due';
}
