import { type SQL, sql } from 'drizzle-orm';
import { DELIVERIES_CHANNEL, LINES } from '../../db/outbox.ts';

/* SQL shared by the transitions of deliveries; see delivery-state.ts. */

/** Sets a pending delivery due now: it waits for nothing. */
export const DUE_NOW = sql`due_at = now(), waits_for = null`;

/** The line of a pending delivery that is not a manual retry. */
export const lineOf = (p: SQL) =>
  sql`case when ${p}.replay_id is null then ${LINES.live}::int else ${LINES.replay}::int end`;

/** Whether the endpoint of the delivery or replay `of` takes calls: it is neither disabled nor deleted. */
export const takesCalls = (of: SQL) =>
  sql`exists (select from webhook_endpoints w where w.id = ${of}.endpoint_id and w.enabled)`;

/** Whether the pending delivery `p` may be under way: a run has it, and it does not wait there for its next attempt. */
export const underWay = (p: SQL) =>
  sql`(${p}.workflow_id is not null and (${p}.waits_for is null or ${p}.due_at <= now()))`;

/** Whether a later delivery of the object of the pending delivery `p` may be under way in another run. */
export const laterUnderWay = (p: SQL) => sql`exists (
    select from pending_deliveries l
    where l.endpoint_id = ${p}.endpoint_id and l.object_id = ${p}.object_id and l.sequence > ${p}.sequence
      and ${underWay(sql`l`)} and l.workflow_id is distinct from ${p}.workflow_id
  )`;

/** Whether a pending delivery was put off behind an earlier one of its object; `nextInOrder` takes that back. */
export const IS_BEHIND = sql`(waits_for = 'order' and workflow_id is null)`;

/**
 * `gone`, deliveries that are no longer pending, is followed by the next ones of their objects: those that were put off are due
 * now, and the relays are woken for them. One that is put off at this very moment is missed; it is due a second later, or with
 * the one before it.
 */
export const nextInOrder = sql`next_in_order as (
    update pending_deliveries set ${DUE_NOW} where ${IS_BEHIND} and delivery_id in (
      select (
        select n.delivery_id from pending_deliveries n
        where n.endpoint_id = gone.endpoint_id and n.object_id = gone.object_id and n.sequence > gone.sequence
        order by n.sequence limit 1
      ) from gone
    ) returning pg_notify(${DELIVERIES_CHANNEL}, '')
  )`;

/**
 * Ends pending deliveries: `own` selects and locks their rows, `set` is their change in the log. The result has one row for each.
 */
export function endPending(own: SQL, set: SQL): SQL {
  return sql`
    with own as materialized (${own}), gone as (
      delete from pending_deliveries p using own where p.delivery_id = own.delivery_id returning p.*
    ), ended as (
      update deliveries d set ${set}, workflow_id = coalesce(gone.workflow_id, d.workflow_id), runs = greatest(d.runs, gone.runs)
      from gone where d.id = gone.delivery_id returning d.id
    ), ${nextInOrder}
    select id from ended`;
}
