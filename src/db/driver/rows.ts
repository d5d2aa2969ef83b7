import { getTableColumns, type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';

/** A row by the names of its columns, as a statement in SQL returns it, or as Postgres makes JSON of it. */
export type NamedRow = Record<string, unknown>;

/** A timestamptz as Postgres writes it. `new Date` of this text has another century for the years 1 to 99. */
export function dateOf(text: string): Date {
  return new Date(text.replace(' ', 'T').replace(/[+-]\d\d$/, '$&:00'));
}

/** The row as drizzle's query builder returns it. A JSON row must not have bytea. */
export function fromRow<T extends PgTable>(table: T, row: NamedRow): T['$inferSelect'] {
  return Object.fromEntries(
    Object.entries(getTableColumns(table)).map(([key, column]) => {
      const value = row[column.name];
      if (typeof value !== 'string') return [key, value];
      if (column.dataType === 'date') return [key, dateOf(value)];
      return [key, column.dataType === 'number' ? Number(value) : value];
    }),
  );
}

/**
 * All columns of the table, by name. Statements that connections keep must not select `*`: when a migration adds a column,
 * Postgres refuses the kept plan of a process that runs beside it ("cached plan must not change result type", 0A000).
 */
export function columnsOf(table: PgTable): SQL {
  const names = Object.values(getTableColumns(table)).map(({ name }) => `"${name}"`);
  return sql.raw(names.join(', '));
}
