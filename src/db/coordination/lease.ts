import { sql } from 'drizzle-orm';
import type { Db, Queryable, Tx } from '../driver/client.ts';
import { statement } from '../driver/statement.ts';

/** The right to write an account's rows: its holder's fencing number, or null for a helper that only adds (an import). */
export interface Lease {
  accountId: string;
  watchEpoch: number | null;
}

/** Another worker holds the account: roll the transaction back and stop. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(accountId: string) {
    super(`another holder watches ${accountId}`);
  }
}

/**
 * Channel of LISTEN/NOTIFY for changes of holders: `<account id> <fencing number>`, with ` removed` behind it when the
 * account is being removed; and for requests to make room: `<account id> room`.
 */
export const LEASES_CHANNEL = 'leases';

/**
 * Takes the account over for a worker: its previous holder can no longer write. Undefined when the account does not
 * exist.
 */
export async function takeLease(db: Db, accountId: string, workerId: string | null = null): Promise<Lease | undefined> {
  const { rows } = await db.execute<{ epoch: string }>(sql`
    update accounts set watch_epoch = watch_epoch + 1, watched_by = ${workerId} where id = ${accountId} and removed_at is null
    returning watch_epoch as epoch`);
  if (!rows[0]) return undefined;
  await announceLease(db, accountId);
  return { accountId, watchEpoch: Number(rows[0].epoch) };
}

/**
 * Takes at most `limit` accounts from a lost worker that took them over last; the next call takes others. Omits those that
 * are being written: the lost worker may have left a transaction open, which the database ends later.
 */
export async function takeAccountsOf(db: Db, workerId: string, limit: number): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    update accounts set watched_by = null where id in (
      select id from accounts where watched_by = ${workerId} order by id limit ${limit} for no key update skip locked
    ) returning id`);
  return rows.map(({ id }) => id);
}

/** Whether `takeAccountsOf` has left accounts of this worker. */
export async function hasAccounts(db: Db, workerId: string): Promise<boolean> {
  const { rows } = await db.execute(sql`select 1 from accounts where watched_by = ${workerId} limit 1`);
  return rows.length > 0;
}

/** Undoes `takeAccountsOf` for the accounts that no worker has taken over since. */
export async function returnAccounts(db: Db, workerId: string, accountIds: readonly string[]): Promise<void> {
  await db.execute(sql`
    update accounts set watched_by = ${workerId} where id = any(${sql.param(accountIds)}) and watched_by is null`);
}

/** Notifies the previous holder that it lost the account, and every process when the account is being removed. */
export async function announceLease(db: Queryable, accountId: string): Promise<void> {
  await db.execute(sql`
    select pg_notify(
      ${LEASES_CHANNEL},
      id || ' ' || watch_epoch || case when removed_at is null then '' else ' removed' end
    ) from accounts where id = ${accountId}`);
}

/** Asks the processes with connections to the account's mailbox to close idle ones: the server allows no further one. */
export async function requestRoom(db: Queryable, accountId: string): Promise<void> {
  await db.execute(sql`select pg_notify(${LEASES_CHANNEL}, ${`${accountId} ${ROOM}`})`);
}

/** In place of a fencing number. */
const ROOM = 'room';

/** The notifications of LEASES_CHANNEL for this process. */
export interface LeaseNotifications {
  /** handles a payload of LEASES_CHANNEL; undefined after a reconnect: calls no listener */
  receive(payload: string | undefined): void;
  /** Calls `lost` once when a later holder takes the account; returns how to stop listening. */
  onLost(lease: Lease, lost: () => void): () => void;
  /** Calls `wanted` whenever a process needs a connection to the mailbox of an account. */
  onRoomWanted(wanted: (accountId: string) => void): () => void;
  /** Calls `removed` for every account whose removal begins. */
  onRemoved(removed: (accountId: string) => void): void;
}

/** Dispatches the notifications of LEASES_CHANNEL to the holders in this process. */
export function createLeaseNotifications(): LeaseNotifications {
  const holders = new Map<string, Set<{ lease: Lease; lost: () => void }>>();
  const removals: ((accountId: string) => void)[] = [];
  const wanting = new Set<(accountId: string) => void>();
  return {
    receive(payload) {
      const [accountId = '', epoch = '', removed] = payload?.split(' ') ?? [];
      if (epoch === ROOM) {
        for (const wanted of wanting) wanted(accountId);
        return;
      }
      for (const { lease, lost } of holders.get(accountId) ?? []) {
        if (Number(epoch) > (lease.watchEpoch ?? Infinity)) lost();
      }
      if (removed === 'removed') for (const onRemoved of removals) onRemoved(accountId);
    },
    onLost(lease, lost) {
      const holder = { lease, lost };
      const sameAccount = holders.get(lease.accountId) ?? new Set();
      holders.set(lease.accountId, sameAccount.add(holder));
      return () => {
        sameAccount.delete(holder);
        if (sameAccount.size === 0) holders.delete(lease.accountId);
      };
    },
    onRoomWanted(wanted) {
      wanting.add(wanted);
      return () => wanting.delete(wanted);
    },
    onRemoved(removed) {
      removals.push(removed);
    },
  };
}

const lockOf = statement('lock_account', ({ accountId, watchEpoch }: Lease) => {
  const isHolder = watchEpoch === null ? sql`` : sql`and watch_epoch = ${watchEpoch}`;
  return sql`select 1 from accounts where id = ${accountId} and removed_at is null ${isHolder} for no key update`;
});

/**
 * Runs one transaction of the account's holder. It locks the account's row first, which serialises the writers of an
 * account.
 * @throws LeaseLost when another holder has it, or the account is being removed: nothing is written
 */
export async function inLease<T>(db: Db, lease: Lease, work: (tx: Tx) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    const { rows } = await tx.execute(lockOf(lease));
    if (rows.length === 0) throw new LeaseLost(lease.accountId);
    return work(tx);
  });
}
