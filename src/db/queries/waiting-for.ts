import type { WaitingFor } from '../../contract/webhook.ts';
import { LINES } from '../outbox.ts';

/** Formats a time as the API does; null stays null. */
export const isoTime = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/**
 * SQL of what a delivery waits for, as JSON of `WaitingFor`; null: it is not pending. `p` names its row of
 * `pending_deliveries`, `e` that of its endpoint; both may be missing, by an outer join. docs/webhook-dispatch.md has the rules.
 */
export function waitingFor(p: string, e: string): string {
  const later = (row: string) => `(${row}.waits_for is not distinct from 'retry' and ${row}.due_at > now())`;
  const spared = `(${e}.enabled and ${e}.breaker_until is not null and ${p}.line <> ${LINES.manual})`;
  return `case when ${p}.delivery_id is not null then (
    select json_build_object('reason', w.reason, 'until', ${isoTime('w.until')}, 'behind', w.behind) from (
      select r.reason, before.delivery_id as behind, case r.reason
          when 'breaker' then case when ${e}.breaker_until > now() then ${e}.breaker_until end
          when 'order' then case when ${later('before')} then before.due_at end
          when 'retry' then ${p}.due_at end as until
      from (values (1)) one
      left join lateral (
        select b.delivery_id, b.waits_for, b.due_at from pending_deliveries b
        where b.endpoint_id = ${p}.endpoint_id and b.object_id = ${p}.object_id and b.sequence < ${p}.sequence
        order by b.sequence limit 1
      ) before on true
      cross join lateral (select case
        when ${spared} and ${e}.breaker_until > now() and not (${later(p)} and ${p}.due_at > ${e}.breaker_until) then 'breaker'
        when before.delivery_id is not null then 'order'
        when ${later(p)} then 'retry'
        when ${spared} then 'breaker'
        when ${p}.line = ${LINES.replay} then 'replay'
        else 'due' end as reason) r
    ) w) end`;
}

/** When the next attempt is made, if that is known. It is never in the past. */
export function nextAttemptAt(waiting: WaitingFor | null): string | null {
  return waiting?.reason === 'retry' || waiting?.reason === 'breaker' ? waiting.until : null;
}
