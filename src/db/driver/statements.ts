import { fillPlaceholders, type SQL, sql } from 'drizzle-orm';
import { PgDialect } from 'drizzle-orm/pg-core';
import { nameOf } from './prepared.ts';

/** A statement in the form that pg expects. */
export interface Statement {
  text: string;
  values: unknown[];
  name?: string;
}

const dialect = new PgDialect();

/** A statement that is planned anew each time. */
export function toQuery(statement: SQL): Statement {
  const { sql: text, params } = dialect.sqlToQuery(statement);
  return { text, values: params };
}

/**
 * A statement that is put together once, with `slot`s for its values. `named`: it is parsed once per connection, and may be
 * planned once, for any values: only where the best plan is always the same, and there are few such statements.
 */
export function prepare(
  statement: SQL,
  { named }: { named: boolean } = { named: true },
): (values: Record<string, unknown>) => Statement {
  const { sql: text, params } = dialect.sqlToQuery(statement);
  const name = named ? nameOf(text) : undefined;
  return (values) => ({ ...(name === undefined ? {} : { name }), text, values: fillPlaceholders(params, values) });
}

/** In the place of a value of a statement that is prepared. */
export function slot(name: string): SQL {
  return sql`${sql.placeholder(name)}`;
}
