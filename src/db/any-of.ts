import { type SQL, sql } from 'drizzle-orm';
import type { AnyPgColumn } from 'drizzle-orm/pg-core';

/**
 * `column = any($1)`: the values travel as one array parameter, however many they are. (One parameter for each value
 * fails beyond 65,535 of them, and each other number of them is another statement to plan.) No value: no row.
 */
export function anyOf(column: AnyPgColumn, values: readonly string[] | readonly number[]): SQL {
  return sql`${column} = any(${sql.param(values)}::${sql.raw(column.getSQLType())}[])`;
}
