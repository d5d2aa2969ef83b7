import { and, eq, isNull, ne, sql } from 'drizzle-orm';
import type { AccountStatus, InitialSyncStatus } from '../../contract/account.ts';
import { anyOf } from '../driver/any-of.ts';
import type { Queryable } from '../driver/client.ts';
import { statement } from '../driver/statement.ts';
import { accounts } from '../schema/index.ts';

/** An account that is being removed does not exist for these. */
const present = isNull(accounts.removedAt);

/** An account that should be in sync and is not, and does not say so. */
export interface LateAccount {
  id: string;
  since: Date;
  /** what its watch failed with last; empty: nothing is known */
  failure: string;
}

/** Accounts of one look; the others follow in the next one. */
const LATE_AT_ONCE = 1_000;

/** Last in sync, or to be followed only since then. */
export const inSyncUntil =
  sql<Date>`greatest(coalesce(${accounts.lastSyncedAt}, ${accounts.connectedAt}), ${accounts.followedSince})`.mapWith(
    accounts.connectedAt,
  );

/** Running accounts that were last in sync before `before` and do not say so yet, the longest first. */
export async function findUnreported(db: Queryable, before: Date): Promise<LateAccount[]> {
  return db
    .select({ id: accounts.id, since: inSyncUntil, failure: accounts.watchFailure })
    .from(accounts)
    .where(
      and(
        present,
        eq(accounts.status, 'running'),
        accounts.watch,
        isNull(accounts.notInSyncSince),
        sql`${inSyncUntil} < ${before.toISOString()}::timestamptz`,
      ),
    )
    .orderBy(inSyncUntil)
    .limit(LATE_AT_ONCE);
}

/** The `status_detail` of an account that should be in sync and is not. */
export function notInSyncDetail(since: Date, failure: string): string {
  return `not in sync since ${since.toISOString()}: ${failure}`;
}

const stateOfAccount = statement(
  'state_of_account',
  (id: string) => sql`
    select status, initial_sync_status as "initialSync", initial_sync_imported as imported, watch from accounts
    where id = ${id} and removed_at is null`,
);

/** The states of an account; undefined when it does not exist, or is being removed. */
export async function getAccountState(
  db: Queryable,
  id: string,
): Promise<
  { status: AccountStatus; initialSync: InitialSyncStatus | null; imported: number; watch: boolean } | undefined
> {
  type State = { status: AccountStatus; initialSync: InitialSyncStatus | null; imported: number; watch: boolean };
  const { rows } = await db.execute<State>(stateOfAccount(id));
  return rows[0];
}

/** Accounts whose workflow should run, whatever their status. */
export async function countAccounts(db: Queryable): Promise<number> {
  return db.$count(accounts, present);
}

/** Accounts whose workflow should run and follow the mailbox. */
export async function countConnected(db: Queryable): Promise<number> {
  const { rows } = await db.execute<{ count: number }>(
    sql`select count(*)::int as count from accounts where removed_at is null and status <> 'disconnected'`,
  );
  return rows[0]?.count ?? 0;
}

/** An account whose workflow should run. */
export interface AccountToRun {
  id: string;
  /** whether that holds a connection open */
  watch: boolean;
}

/**
 * Accounts, at most `limit`, that were last in sync before `before`. `isSpaced`: an account that was returned before follows
 * again after a tenth of the time for which it has been late, an hour at most; it is always returned in its first five
 * minutes. Accounts that became late since they were returned come first, then those that were returned longest ago.
 */
export async function findRunsToEnsure(
  db: Queryable,
  before: Date,
  { limit, isSpaced }: { limit: number; isSpaced: boolean },
): Promise<AccountToRun[]> {
  const ensured = sql`nullif(greatest(${accounts.runEnsuredAt}, ${inSyncUntil}), ${inSyncUntil})`;
  return db
    .select({ id: accounts.id, watch: accounts.watch })
    .from(accounts)
    .where(
      and(
        present,
        ne(accounts.status, 'disconnected'),
        sql`${inSyncUntil} < ${before.toISOString()}::timestamptz`,
        isSpaced
          ? sql`coalesce(${ensured} < now() - least(interval '1 hour', (now() - ${inSyncUntil} - interval '5 minutes') / 10), true)`
          : undefined,
      ),
    )
    .orderBy(sql`${ensured} nulls first`, sql`${inSyncUntil} desc`)
    .limit(limit);
}

/** The workflows of these accounts run. */
export async function markRunsEnsured(db: Queryable, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await db.update(accounts).set({ runEnsuredAt: sql`now()` }).where(anyOf(accounts.id, ids));
}

/** Between two verifications of an account, in hours. */
const VERIFY_HOURS = 24;

/** Accounts that are due to be verified, the longest due first. */
export async function findDueVerifications(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select id from accounts
    where removed_at is null and status = 'running'
      and coalesce(verified_at, connected_at) < now() - make_interval(hours => ${VERIFY_HOURS})
    order by coalesce(verified_at, connected_at) limit ${limit}`);
  return rows.map(({ id }) => id);
}

/** The verification of an account has begun: it is not due again until tomorrow. */
export async function markVerificationBegun(db: Queryable, id: string): Promise<void> {
  await db.update(accounts).set({ verifiedAt: sql`now()` }).where(eq(accounts.id, id));
}

/** A page of accounts by id. */
interface IdPage {
  /** connected, or removed, before this */
  before: Date;
  afterId: string;
  limit: number;
}

/** Accounts whose initial sync has not ended and should be under way, in the order of their ids. */
export async function accountsToImport(db: Queryable, { before, afterId, limit }: IdPage): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select id from accounts
    where initial_sync_status in ('pending', 'running') and removed_at is null and status <> 'disconnected'
      and connected_at < ${before.toISOString()}::timestamptz and id > ${afterId}
    order by id limit ${limit}`);
  return rows.map(({ id }) => id);
}

/** Accounts whose removal has not ended, in the order of their ids. */
export async function accountsToRemove(db: Queryable, { before, afterId, limit }: IdPage): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select id from accounts where removed_at < ${before.toISOString()}::timestamptz and id > ${afterId}
    order by id limit ${limit}`);
  return rows.map(({ id }) => id);
}
