import { getTableColumns } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';

/** A row by the names of its columns, as a statement in SQL returns it, or as Postgres makes JSON of it. */
export type NamedRow = Record<string, unknown>;

/** The row as drizzle's query builder returns it. A JSON row must not have bytea. */
export function fromRow<T extends PgTable>(table: T, row: NamedRow): T['$inferSelect'] {
  return Object.fromEntries(
    Object.entries(getTableColumns(table)).map(([key, column]) => {
      const value = row[column.name];
      if (typeof value !== 'string') return [key, value];
      if (column.dataType === 'date') return [key, new Date(value)];
      return [key, column.dataType === 'number' ? Number(value) : value];
    }),
  );
}
