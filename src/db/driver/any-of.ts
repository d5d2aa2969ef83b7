import { type Column, type SQL, sql } from 'drizzle-orm';

/**
 * `column = any($1)`: all values are one array parameter. (drizzle's inArray binds one
 * parameter for each value, of which the protocol allows 65,535, and each number of them is another statement to plan.)
 * Without values, no row matches.
 */
export function anyOf<C extends Column>(column: C, values: readonly C['_']['data'][]): SQL {
  return sql`${column} = any(${sql.param(values)}::${sql.raw(column.getSQLType())}[])`;
}
