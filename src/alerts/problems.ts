import { type SQL, sql } from 'drizzle-orm';
import { ENDPOINT_NAME } from '../db/queries/endpoint-name.ts';
import { statusBeganAt } from '../db/queries/overview.ts';

/** An endpoint, or a mailbox that cannot be reached, is reported after so long. A refused login is reported at once. */
const LASTS = sql`interval '10 minutes'`;
/** So many mailboxes of one server that cannot be reached are a problem of the server, if they are half of its mailboxes. */
const MAILBOXES_OF_A_SERVER = 3;
/** A backlog is over when it has fallen to this part of the limit. */
const BACKLOG_OVER = 0.8;

/**
 * Selects the problems that there are at `now`: the columns of `alerts`, and whether a new one opens an alert. Mailboxes of a
 * server that is away open none, but those that were reported before it stay open.
 */
export function problemsAt(now: Date, backlog: number): SQL {
  const at = sql`${now.toISOString()}::timestamptz`;
  return sql`
    with troubled as (
      select id, name, status, lower(imap_host) as server,
        coalesce(nullif(status_detail, ''), nullif(watch_failure, ''), 'no worker watches the mailbox') as detail,
        case when status <> 'running' then ${sql.raw(statusBeganAt('a'))} else not_in_sync_since end as since
      from accounts a
      where removed_at is null and (status <> 'running' or not_in_sync_since is not null)
    ), away as (
      select * from troubled where status <> 'disconnected' and since <= ${at} - ${LASTS}
    ), servers as (
      select server, count(*)::int as mailboxes, min(detail) as detail, min(since) as since from away
      -- one whose login is refused says nothing of its server
      group by server having count(*) >= ${MAILBOXES_OF_A_SERVER} and 2 * (
        -- also those that are away for a shorter time: they do not begin in one moment
        select count(*) from troubled t where t.status <> 'disconnected' and t.server = away.server
      ) >= (select count(*) from accounts a
        where a.removed_at is null and a.status <> 'disconnected' and lower(a.imap_host) = away.server)
    ), came_back as (
      -- its mailboxes do not come back in one moment either
      select server from alerts where kind = 'server_unreachable' and coalesce(closed_at > ${at} - ${LASTS}, true)
    )
    select 'login:' || id as problem, 'mailbox_disconnected' as kind, id as object_id, name, detail, server, 1 as count, since,
        true as opens
      from troubled where status = 'disconnected'
    union all
    select 'mailbox:' || id, 'mailbox_unreachable', id, name, detail, server, 1, since,
        server not in (select server from servers union all select server from came_back)
      from away
    union all
    select 'server:' || server, 'server_unreachable', null, server, detail, server, mailboxes, since, true from servers
    union all
    select 'endpoint:' || id, 'endpoint_failing', id, ${sql.raw(ENDPOINT_NAME)},
        case when enabled then failed_attempts || ' calls failed in a row' else 'disabled: ' || disabled_reason end, '', 1,
        coalesce(failing_since, updated_at), true
      from webhook_endpoints
      where case when enabled then failing_since <= ${at} - ${LASTS} else disabled_reason is not null end
    union all
    select 'backlog', 'backlog', null, 'Deliveries', 'more than ' || ${backlog}::int || ' deliveries wait', '', waiting, ${at}, true
      from (select count(*)::int as waiting from (select from pending_deliveries limit ${backlog + 1}) counted) pending
      where ${backlog}::int > 0 and (waiting > ${backlog}::int or (waiting > ${Math.floor(backlog * BACKLOG_OVER)}
        and exists (select from alerts where problem = 'backlog' and closed_at is null)))`;
}
