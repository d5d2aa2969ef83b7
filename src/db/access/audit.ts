import { and, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm';
import type { AuditAction, AuditOutcome, AuditRecord } from '../../contract/audit.ts';
import { newId } from '../../new-id.ts';
import type { Queryable } from '../driver/client.ts';
import { auditRecords } from '../schema/index.ts';

/** An operation, successful or refused. */
export interface AuditedCall {
  at: Date;
  action: AuditAction;
  /** of the response */
  status: number;
  apiKeyId: string | null;
  address: string;
  requestId: string;
  objectId: string | null;
}

/** Filters of the audit log; combined with AND. */
export interface AuditFilter {
  action?: AuditAction | undefined;
  apiKeyId?: string | undefined;
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
  await db.insert(auditRecords).values({ id: newId('audit'), ...call });
}

/** A page of the audit log, newest first; `next` is null at its end. */
export async function listAudit(
  db: Queryable,
  filter: AuditFilter,
  page: { limit: number; position: Position | null },
): Promise<{ data: AuditRecord[]; next: Position | null }> {
  const rows = await db
    .select()
    .from(auditRecords)
    .where(and(...conditions(filter), page.position ? isBefore(page.position) : undefined))
    .orderBy(desc(auditRecords.at), desc(auditRecords.id))
    .limit(page.limit + 1);
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    data: shown.map(toAuditRecord),
    next: last && rows.length > page.limit ? { date: last.at, id: last.id } : null,
  };
}

function conditions(filter: AuditFilter): (SQL | undefined)[] {
  return [
    filter.action && eq(auditRecords.action, filter.action),
    filter.apiKeyId === undefined ? undefined : eq(auditRecords.apiKeyId, filter.apiKeyId),
    filter.objectId === undefined ? undefined : eq(auditRecords.objectId, filter.objectId),
    filter.since && gte(auditRecords.at, filter.since),
    filter.until && lt(auditRecords.at, filter.until),
  ];
}

const isBefore = ({ date, id }: Position) =>
  sql`(${auditRecords.at}, ${auditRecords.id}) < (${date.toISOString()}::timestamptz, ${id})`;

function toAuditRecord(row: typeof auditRecords.$inferSelect): AuditRecord {
  return {
    object: 'AuditRecord',
    id: row.id,
    at: row.at.toISOString(),
    action: row.action as AuditAction,
    outcome: outcomeOf(row.status),
    status: row.status,
    object_id: row.objectId,
    api_key_id: row.apiKeyId,
    address: row.address,
    request_id: row.requestId,
  };
}

function outcomeOf(status: number): AuditOutcome {
  return status < 400 ? 'done' : status < 500 ? 'refused' : 'failed';
}
