import type { PoolClient } from 'pg';

/** This database cannot be used as it is; the message says what to do. */
export class UnusableDatabase extends Error {
  override name = 'UnusableDatabase';
}

/** Whether an error is UnusableDatabase: further attempts throw it, too, until the operator has done what it says. */
export const isUnusable = (error: unknown): error is UnusableDatabase => error instanceof UnusableDatabase;

/** @throws UnusableDatabase where the database cannot store all text, or knows the letters of ASCII only */
export async function checkEncoding(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ name: string; encoding: string }>(
    "SELECT current_database() AS name, current_setting('server_encoding') AS encoding",
  );
  const { name = '', encoding = '' } = rows[0] ?? {};
  const wanted = "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LC_CTYPE 'C.UTF-8' LC_COLLATE 'C.UTF-8'";
  if (encoding !== 'UTF8') {
    throw new UnusableDatabase(
      `DATABASE_URL names the database ${name}, whose encoding is ${encoding}: use one in UTF8 (${wanted}).`,
    );
  }
  const { rows: answers } = await client.query<{ known: boolean }>("SELECT lower('ÉЖ') = 'éж' AS known");
  if (answers[0]?.known !== true) {
    throw new UnusableDatabase(
      `DATABASE_URL names the database ${name}, whose LC_CTYPE knows the letters of ASCII only, so search would find no others: use one with a UTF-8 LC_CTYPE (${wanted}).`,
    );
  }
}
