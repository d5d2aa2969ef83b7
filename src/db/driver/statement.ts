import { fillPlaceholders, type SQL, sql } from 'drizzle-orm';
import { PgDialect } from 'drizzle-orm/pg-core';
import type pg from 'pg';

/*
 * Planning a statement with several joins takes Postgres milliseconds, often ten times as long as running it. So a
 * statement that is run for every mail, delivery or request has a name: each connection parses it once, plans it a few
 * times, then keeps the plan (https://www.postgresql.org/docs/current/sql-prepare.html). ANALYZE makes Postgres plan it
 * again. pg_stat_activity and pg_stat_statements show the name. Everything else is plain SQL of drizzle.
 */

const MARK = /^\/\* ([a-z0-9_]+) \*\/ /;

/**
 * A statement with a name of [a-z0-9_]. `build` makes it from its values; the resulting text must not depend on them, or
 * have few forms only: every connection caches each form.
 */
export function statement<A extends unknown[]>(name: string, build: (...values: A) => SQL): (...values: A) => SQL {
  const mark = sql.raw(`/* ${name} */ `);
  return (...values) => sql`${mark}${build(...values)}`;
}

/** The name of a text that `statement` made; undefined for any other. */
export function nameIn(text: string): string | undefined {
  return MARK.exec(text)?.[1];
}

const dialect = new PgDialect();

/**
 * A statement for `pool.query` that is built once, with `slot`s for its values: drizzle takes up to 1.3 ms of CPU to
 * build one, more than a read takes to run.
 */
export function compile(text: SQL): (values?: Record<string, unknown>) => pg.QueryConfig {
  const { sql: compiled, params } = dialect.sqlToQuery(text);
  return (values = {}) => ({ text: compiled, values: fillPlaceholders(params, values) });
}

/** Stands for a value of a compiled statement. */
export function slot(name: string): SQL {
  return sql`${sql.placeholder(name)}`;
}
