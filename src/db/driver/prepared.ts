import { createHash } from 'node:crypto';
import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Queryable } from './client.ts';

/*
 * To plan a statement with several joins takes Postgres milliseconds, often ten times what it takes to run it. What is made
 * for every mail or delivery is parsed once on each connection and planned a few times, then the plan is kept
 * (https://www.postgresql.org/docs/current/sql-prepare.html). ANALYZE makes Postgres plan it again.
 */

const MARK = '/* prepared */ ';

/** Has a statement kept by the connection that runs it. Its text must not depend on values: there are few such texts. */
export function prepared(statement: SQL): SQL {
  return sql`${sql.raw(MARK)}${statement}`;
}

/**
 * A query that is put together once for each database, by `build`: drizzle takes longer for that than Postgres to run it. Its
 * values are placeholders (https://orm.drizzle.team/docs/perf-queries#prepared-statement).
 */
export function kept<T>(build: (db: Queryable) => T): (db: Queryable) => T {
  const built = new WeakMap<Queryable, T>();
  return (db) => {
    let query = built.get(db);
    if (query === undefined) {
      query = build(db);
      built.set(db, query);
    }
    return query;
  };
}

const names = new Map<string, string>();

/** A class of clients that keep the statements which are made with `prepared`. */
export function preparingClient(Client: typeof pg.Client): typeof pg.Client {
  return class PreparingClient extends Client {
    // pg's query has many forms: drizzle gives an object, and maybe values
    override query(...args: unknown[]): never {
      const [query, ...others] = args;
      const named = isPrepared(query) ? { ...query, name: nameOf(query.text) } : query;
      return (super.query as (...args: unknown[]) => never).call(this, named, ...others);
    }
  };
}

function isPrepared(query: unknown): query is { text: string } {
  return typeof query === 'object' && query !== null && 'text' in query && String(query.text).startsWith(MARK);
}

/** The name by which connections know a statement, the same for the same text. */
export function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash('sha256').update(text).digest('base64url').slice(0, 20);
    names.set(text, name);
  }
  return name;
}
