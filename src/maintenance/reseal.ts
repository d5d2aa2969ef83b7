import { sql } from 'drizzle-orm';
import type { Db } from '../db/driver/client.ts';
import type { Sealer } from '../db/queries/endpoints.ts';

/** Encrypts with the current key, and also opens with the previous one. */
export interface Resealer extends Sealer {
  keyOf(sealed: Buffer): 'current' | 'previous' | undefined;
}

/** The result for one column. */
export interface Resealed {
  column: string;
  /** values that were resealed */
  resealed: number;
  /** values that no key of the settings opens: they are unchanged */
  unreadable: number;
}

interface SealedColumn {
  table: string;
  column: string;
  /** the primary key; the id under which the value is sealed is its parts with a space in between */
  key: readonly string[];
}

/** Every column with sealed values (src/security/secrets.ts). */
export const SEALED_COLUMNS: readonly SealedColumn[] = [
  { table: 'accounts', column: 'credentials', key: ['id'] },
  { table: 'accounts', column: 'data_key', key: ['id'] },
  { table: 'connect_intents', column: 'intent', key: ['id'] },
  { table: 'oauth_apps', column: 'secrets', key: ['id'] },
  { table: 'oauth_sign_ins', column: 'request', key: ['id'] },
  { table: 'oauth_tokens', column: 'tokens', key: ['account_id'] },
  { table: 'device_sign_ins', column: 'request', key: ['id'] },
  { table: 'uploads', column: 'data_key', key: ['id'] },
  { table: 'idempotency_keys', column: 'response', key: ['api_key_id', 'key'] },
  { table: 'webhook_endpoints', column: 'headers', key: ['id'] },
  { table: 'webhook_endpoints', column: 'secret', key: ['id'] },
  { table: 'webhook_endpoints', column: 'previous_secret', key: ['id'] },
];

/** Rows of one statement. */
const CHUNK = 200;

/**
 * Reseals with the current key all values sealed with the previous one. Rows are read in chunks and written one by one,
 * each only if it has not changed since: the product may run. Repeating it continues.
 */
export async function resealAll(db: Db, sealer: Resealer): Promise<Resealed[]> {
  const found: Resealed[] = [];
  for (const column of SEALED_COLUMNS) found.push(await resealColumn(db, sealer, column));
  return found;
}

async function resealColumn(db: Db, sealer: Resealer, { table, column, key }: SealedColumn): Promise<Resealed> {
  const counts = { column: `${table}.${column}`, resealed: 0, unreadable: 0 };
  for await (const row of sealedRows(db, { table, column, key })) {
    if (sealer.keyOf(row.sealed) === 'current') continue;
    const where = { table, column, id: row.key.join(' ') };
    const text = openedBy(sealer, where, row.sealed);
    if (text === undefined) counts.unreadable += 1;
    else if (await replace(db, { table, column, key }, row, sealer.seal(where, text))) counts.resealed += 1;
  }
  return counts;
}

/** Version and id of the key that a sealed value begins with (src/security/secrets.ts). */
const HEAD_BYTES = 9;

/** Counts the values that only the previous key opens, and those that neither key opens. */
export async function countSealed(db: Db, sealer: Resealer): Promise<{ previous: number; unreadable: number }> {
  const counts = { previous: 0, unreadable: 0 };
  for (const { table, column } of SEALED_COLUMNS) {
    const value = sql.identifier(column);
    const { rows } = await db.execute<{ head: Buffer; count: number }>(sql`
      select substring(${value} for ${HEAD_BYTES}) as head, count(*)::int as count from ${sql.identifier(table)}
      where length(${value}) > 0 group by 1`);
    for (const { head, count } of rows) {
      const key = sealer.keyOf(head);
      if (key !== 'current') counts[key ?? 'unreadable'] += count;
    }
  }
  return counts;
}

interface SealedRow {
  key: string[];
  sealed: Buffer;
}

async function* sealedRows(db: Db, { table, column, key }: SealedColumn): AsyncGenerator<SealedRow> {
  const value = sql.identifier(column);
  const parts = sql.join(
    key.map((part) => sql`${sql.identifier(part)}`),
    sql`, `,
  );
  let after: string[] | undefined;
  for (;;) {
    const later: string[] | undefined = after;
    const isLater =
      later === undefined
        ? sql``
        : sql`and (${parts}) > (${sql.join(
            later.map((part) => sql`${part}`),
            sql`, `,
          )})`;
    const { rows } = await db.execute<{ key: string[]; sealed: Buffer }>(sql`
      select array[${parts}] as key, ${value} as sealed from ${sql.identifier(table)}
      where length(${value}) > 0 ${isLater} order by ${parts} limit ${CHUNK}`);
    yield* rows;
    if (rows.length < CHUNK) return;
    after = rows.at(-1)?.key;
  }
}

async function replace(db: Db, { table, column, key }: SealedColumn, row: SealedRow, sealed: Buffer): Promise<boolean> {
  const isRow = key.map((part, at) => sql`${sql.identifier(part)} = ${row.key[at]}`);
  const value = sql.identifier(column);
  const { rowCount } = await db.execute(sql`
    update ${sql.identifier(table)} set ${value} = ${sealed}
    where ${sql.join(isRow, sql` and `)} and ${value} = ${row.sealed}`);
  return rowCount === 1;
}

function openedBy(sealer: Resealer, where: Parameters<Sealer['open']>[0], sealed: Buffer): string | undefined {
  try {
    return sealer.open(where, sealed);
  } catch (error) {
    if (error instanceof Error && error.name === 'SealError') return undefined;
    throw error;
  }
}
