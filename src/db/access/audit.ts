import { and, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm';
import type { AuditAction, AuditOutcome, AuditRecord } from '../../contract/audit.ts';
import { isId } from '../../contract/ids.ts';
import { newId } from '../../new-id.ts';
import type { Queryable } from '../driver/client.ts';
import { PUBLIC_URL } from '../queries/endpoint-name.ts';
import { auditRecords } from '../schema/index.ts';

/** An operation, successful or refused. */
export interface AuditedCall {
  at: Date;
  action: AuditAction;
  /** of the response */
  status: number;
  /** the id of a key or a person */
  apiKeyId: string | null;
  /** omitted: the name of the key now */
  actorName?: string;
  address: string;
  requestId: string;
  objectId: string | null;
  objectName: string | null;
}

/** Filters of the audit log; combined with AND. */
export interface AuditFilter {
  action?: AuditAction | undefined;
  apiKeyId?: string | undefined;
  personId?: string | undefined;
  objectId?: string | undefined;
  /** at or after */
  since?: Date | undefined;
  /** before */
  until?: Date | undefined;
}

interface Position {
  date: Date;
  id: string;
}

/** Adds one record. Records are never changed; see deleteAuditRecordsBefore of src/maintenance/retention.ts. */
export async function recordAudit(db: Queryable, call: AuditedCall): Promise<void> {
  const { apiKeyId, actorName = sql`(select name from api_keys where id = ${apiKeyId})` } = call;
  await db.insert(auditRecords).values({ id: newId('audit'), ...call, actorName });
}

/**
 * Names of objects by the prefix of their ids. No address of a mailbox: records outlive it. Of an endpoint without a
 * description, the host: its URL may hold a secret.
 */
const NAMES: Record<string, SQL> = {
  acc: sql`select name from accounts where name not in (user_id, imap_user) and name not like '%@%' and id = `,
  pk: sql`select name from api_keys where id = `,
  per: sql`select name from api_keys where id = `,
  lnk: sql`select name from auth_links where name not like '%@%' and id = `,
  oap: sql`select name from oauth_apps where id = `,
  we: sql`select coalesce(nullif(description, ''), substring(${sql.raw(PUBLIC_URL)} from '^[^:]+:[/\\\\]*([^/?#]+)')) as name
    from webhook_endpoints where id = `,
};

/** The name of an object for its record; null: it does not exist, or has none. */
export async function nameOf(db: Queryable, id: string): Promise<string | null> {
  const select = NAMES[id.slice(0, id.indexOf('_'))];
  if (select === undefined) return null;
  const { rows } = await db.execute<{ name: string | null }>(sql`${select}${id}`);
  return rows[0]?.name ?? null;
}

/** Names a mailbox that has no name except its address, until it is removed. */
const ACCOUNT_NAME_NOW = sql<string | null>`(
  select a.name from accounts a where a.id = ${auditRecords.objectId} and a.removed_at is null)`;

/** A page of the audit log, newest first; `next` is null at its end. */
export async function listAudit(
  db: Queryable,
  filter: AuditFilter,
  page: { limit: number; position: Position | null },
): Promise<{ data: AuditRecord[]; next: Position | null }> {
  const rows = await db
    .select({ record: auditRecords, nameNow: ACCOUNT_NAME_NOW })
    .from(auditRecords)
    .where(and(...conditions(filter), page.position ? isBefore(page.position) : undefined))
    .orderBy(desc(auditRecords.at), desc(auditRecords.id))
    .limit(page.limit + 1);
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1)?.record;
  return {
    data: shown.map(({ record, nameNow }) => toAuditRecord({ ...record, objectName: record.objectName ?? nameNow })),
    next: last && rows.length > page.limit ? { date: last.at, id: last.id } : null,
  };
}

function conditions(filter: AuditFilter): (SQL | undefined)[] {
  return [
    filter.action && eq(auditRecords.action, filter.action),
    filter.apiKeyId === undefined ? undefined : eq(auditRecords.apiKeyId, filter.apiKeyId),
    filter.personId === undefined ? undefined : eq(auditRecords.apiKeyId, filter.personId),
    filter.objectId === undefined ? undefined : eq(auditRecords.objectId, filter.objectId),
    filter.since && gte(auditRecords.at, filter.since),
    filter.until && lt(auditRecords.at, filter.until),
  ];
}

const isBefore = ({ date, id }: Position) =>
  sql`(${auditRecords.at}, ${auditRecords.id}) < (${date.toISOString()}::timestamptz, ${id})`;

function toAuditRecord(row: typeof auditRecords.$inferSelect): AuditRecord {
  const isPerson = isId('person', row.apiKeyId ?? '');
  return {
    object: 'AuditRecord',
    id: row.id,
    at: row.at.toISOString(),
    action: row.action as AuditAction,
    outcome: outcomeOf(row.status),
    status: row.status,
    object_id: row.objectId,
    object_name: row.objectName,
    api_key_id: isPerson ? null : row.apiKeyId,
    person_id: isPerson ? row.apiKeyId : null,
    actor: row.actorName,
    address: row.address,
    request_id: row.requestId,
  };
}

function outcomeOf(status: number): AuditOutcome {
  return status < 400 ? 'done' : status < 500 ? 'refused' : 'failed';
}
