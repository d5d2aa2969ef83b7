import { type Column, type SQL, sql } from 'drizzle-orm';

/**
 * `column = any($1)`. The values travel as one array parameter: drizzle's inArray binds one parameter per value, of which
 * the protocol allows 65,535. The statement's text is the same for any number of values.
 */
export function isOneOf<C extends Column>(column: C, values: readonly C['_']['data'][]): SQL {
  return sql`${column} = any(${sql.param(values)}::${sql.raw(column.getSQLType())}[])`;
}
