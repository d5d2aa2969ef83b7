import { getTableColumns } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';

/** A row as Postgres makes JSON of it: keys are names of columns, times are RFC 3339. */
export type JsonRow = Record<string, unknown>;

/** The row that drizzle would give. Not for bytea. */
export function fromJsonRow<T extends PgTable>(table: T, json: JsonRow): T['$inferSelect'] {
  return Object.fromEntries(
    Object.entries(getTableColumns(table)).map(([key, column]) => {
      const value = json[column.name];
      return [key, column.dataType === 'date' && typeof value === 'string' ? new Date(value) : value];
    }),
  );
}
