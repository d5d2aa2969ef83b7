import { getTableName, type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import { statement } from './statement.ts';

/** The rows that a statement changes. */
export interface Change {
  table: PgTable;
  /** no other statement of the same `Writes` changes any of these rows */
  isDisjoint?: boolean;
}

/** Runs statements that change rows: a transaction at the call, `Writes` with others. */
export interface Writer {
  execute(text: SQL, change: Change): PromiseLike<unknown>;
}

/** The database or a transaction. */
interface Runner {
  execute(text: SQL): PromiseLike<{ rows: Record<string, unknown>[] }>;
}

/**
 * Statements that change rows, collected and sent to Postgres as one data-modifying WITH: one round trip for all. All of
 * them see the rows as they were before, and where two change the same row Postgres keeps one of the changes
 * (https://www.postgresql.org/docs/current/queries-with.html). So a second statement on a table is refused, unless both
 * say that their rows are disjoint. Nothing runs before `flush`.
 */
export class Writes implements Writer {
  private readonly parts: { name: string; text: SQL }[] = [];
  private readonly columns: { name: string; value: SQL }[] = [];
  /** tables that are changed; false: no other statement may change them */
  private readonly tables = new Map<string, boolean>();

  /**
   * Adds a statement that changes rows; others that are added may read by `name` what it returns.
   * @throws Error when another one changes the same table, and not both are disjoint
   */
  add(name: string, text: SQL, { table, isDisjoint = false }: Change): void {
    const tableName = getTableName(table);
    const others = this.tables.get(tableName);
    if (others !== undefined && !(others && isDisjoint))
      throw new Error(`two statements of one flush change ${tableName}`);
    this.tables.set(tableName, isDisjoint);
    this.read(name, text);
  }

  /** Adds a statement that changes no row, for others to read by `name`. */
  read(name: string, text: SQL): void {
    this.parts.push({ name, text });
  }

  async execute(text: SQL, change: Change): Promise<void> {
    this.add(`write_${this.parts.length}`, text, change);
  }

  /** Adds a value to the row that `flush` returns. */
  select(name: string, value: SQL): void {
    this.columns.push({ name, value });
  }

  /** Runs what was added since the last flush, in one statement; returns the values of `select`. */
  async flush(tx: Runner): Promise<Record<string, unknown>> {
    this.tables.clear();
    const parts = this.parts.splice(0).map(({ name, text }) => sql`${sql.identifier(name)} as (${text})`);
    const columns = this.columns.splice(0).map(({ name, value }) => sql`${value} as ${sql.identifier(name)}`);
    if (parts.length === 0 && columns.length === 0) return {};
    const withParts = parts.length > 0 ? sql`with ${sql.join(parts, sql`, `)} ` : sql``;
    const { rows } = await tx.execute(writes(sql`${withParts}select ${sql.join(columns, sql`, `)}`));
    return rows[0] ?? {};
  }
}

const writes = statement('writes', (text: SQL) => text);
