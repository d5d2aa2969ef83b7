import { and, eq, isNull, sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../driver/client.ts';
import { columnsOf, fromRow } from '../driver/rows.ts';
import { statement } from '../driver/statement.ts';
import { accounts, oauthTokens } from '../schema/index.ts';

/** The tokens of an account, sealed, with their times. */
export type TokenRow = typeof oauthTokens.$inferSelect;

/** The column that holds the tokens of an account, for sealing them. */
export const tokensLocation = (accountId: string) => ({ table: 'oauth_tokens', column: 'tokens', id: accountId });

const tokensOf = statement(
  'tokens_of_account',
  (accountId: string) => sql`select ${columnsOf(oauthTokens)} from oauth_tokens where account_id = ${accountId}`,
);

/** Undefined: the account logs in with passwords, or does not exist. */
export async function readTokens(db: Queryable, accountId: string): Promise<TokenRow | undefined> {
  const [found] = (await db.execute(tokensOf(accountId))).rows;
  return found && fromRow(oauthTokens, found);
}

/**
 * Locks the tokens of an account until the transaction ends, which serialises the requests for new ones over all workers.
 * `credentials` and `user`, its login name at the IMAP server: as they are now. Undefined: as above.
 */
export async function lockTokens(
  tx: Tx,
  accountId: string,
): Promise<{ row: TokenRow; credentials: Buffer; user: string } | undefined> {
  const [row] = await tx.select().from(oauthTokens).where(eq(oauthTokens.accountId, accountId)).for('update');
  const [account] = await tx
    .select({ credentials: accounts.credentials, user: accounts.imapUser })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNull(accounts.removedAt)));
  return row && account && { row, ...account };
}

/** The sealed credentials of an account. Undefined: it does not exist. */
export async function readCredentials(db: Queryable, accountId: string): Promise<Buffer | undefined> {
  const [account] = await db
    .select({ credentials: accounts.credentials })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNull(accounts.removedAt)));
  return account?.credentials;
}

/** The count of tokens that are due within half a second of each of these times. */
export async function renewalsAround(db: Queryable, times: Date[]): Promise<number[]> {
  const { rows } = await db.execute<{ due: number }>(sql`
    select (select count(*)::int from oauth_tokens
      where renew_at between t.at - interval '0.5 s' and t.at + interval '0.5 s') as due
    from unnest(${sql.param(times.map((time) => time.toISOString()))}::timestamptz[]) with ordinality as t (at, place)
    order by place`);
  return rows.map(({ due }) => due);
}

/** Stores the tokens of a new grant, in the transaction that stores the grant. */
export async function putTokens(
  tx: Tx,
  row: Pick<TokenRow, 'accountId' | 'appId' | 'tokens' | 'expiresAt' | 'renewAt'>,
): Promise<void> {
  const fresh = { ...row, retryAt: null, fault: '', failure: '' };
  await tx.insert(oauthTokens).values(fresh).onConflictDoUpdate({ target: oauthTokens.accountId, set: fresh });
}

/** Changes the row, unless its tokens are no longer `previous`. */
export async function changeTokens(
  db: Queryable,
  { accountId, tokens: previous }: Pick<TokenRow, 'accountId' | 'tokens'>,
  change: Partial<Omit<TokenRow, 'accountId'>>,
): Promise<void> {
  await db
    .update(oauthTokens)
    .set(change)
    .where(and(eq(oauthTokens.accountId, accountId), eq(oauthTokens.tokens, previous)));
}

/** Deletes the tokens of an account that is removed, or logs in with passwords from now on. */
export async function deleteTokens(tx: Queryable, accountId: string): Promise<void> {
  await tx.delete(oauthTokens).where(eq(oauthTokens.accountId, accountId));
}
