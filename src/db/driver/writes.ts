import { type SQL, sql } from 'drizzle-orm';
import { prepared } from './prepared.ts';

/** What takes a statement that changes rows: a transaction runs it at once, `Writes` runs it with others. */
export interface Writer {
  execute(statement: SQL): PromiseLike<unknown>;
}

/** The database or a transaction, as far as it runs a statement that gives rows. */
interface Runner {
  execute(statement: SQL): PromiseLike<{ rows: Record<string, unknown>[] }>;
}

/**
 * Statements that change rows, collected and sent to Postgres as one (data-modifying WITH): what a statement costs on its
 * way there and back is paid once. All of them see the rows as they were before; two must not change the same row. What
 * `execute` is given is not run before `flush`.
 */
export class Writes implements Writer {
  private readonly parts: { name: string; statement: SQL }[] = [];
  private readonly columns: { name: string; value: SQL }[] = [];

  /** Adds a statement; others that are added may read by `name` what it returns. */
  add(name: string, statement: SQL): void {
    this.parts.push({ name, statement });
  }

  async execute(statement: SQL): Promise<void> {
    this.add(`write_${this.parts.length}`, statement);
  }

  /** Adds a value to the row that `flush` gives. */
  select(name: string, value: SQL): void {
    this.columns.push({ name, value });
  }

  /** Runs what was added since the last flush, in one statement; the values of `select`. */
  async flush(tx: Runner): Promise<Record<string, unknown>> {
    const parts = this.parts.splice(0).map(({ name, statement }) => sql`${sql.identifier(name)} as (${statement})`);
    const columns = this.columns.splice(0).map(({ name, value }) => sql`${value} as ${sql.identifier(name)}`);
    if (parts.length === 0 && columns.length === 0) return {};
    const withParts = parts.length > 0 ? sql`with ${sql.join(parts, sql`, `)} ` : sql``;
    const { rows } = await tx.execute(prepared(sql`${withParts}select ${sql.join(columns, sql`, `)}`));
    return rows[0] ?? {};
  }
}
