import { sql } from 'drizzle-orm';
import type { Db, Queryable, Tx } from './client.ts';
import { LeaseLost } from './outbox.ts';

/** Who may write for an account: its holder's fencing number, or null for a helper that only adds (an import). */
export interface Lease {
  accountId: string;
  watchEpoch: number | null;
}

/** Channel of LISTEN/NOTIFY that tells holders that an account was taken over: `<account id> <fencing number>`. */
export const LEASES_CHANNEL = 'leases';

/** Takes the account over: whoever held it before can write no more. Undefined when the account is gone. */
export async function takeLease(db: Db, accountId: string): Promise<Lease | undefined> {
  const { rows } = await db.execute<{ epoch: string }>(sql`
    update accounts set watch_epoch = watch_epoch + 1 where id = ${accountId} and removed_at is null
    returning watch_epoch as epoch`);
  if (!rows[0]) return undefined;
  await announceLease(db, accountId);
  return { accountId, watchEpoch: Number(rows[0].epoch) };
}

/** Tells the holder so far that it lost the account; it need not wait for its next write to hear. */
export async function announceLease(db: Queryable, accountId: string): Promise<void> {
  await db.execute(
    sql`select pg_notify(${LEASES_CHANNEL}, id || ' ' || watch_epoch) from accounts where id = ${accountId}`,
  );
}

/** Who wants to hear that its lease was lost. */
export interface LeaseNotifications {
  /** what LEASES_CHANNEL told; without a payload nothing is known and nobody is called */
  receive(payload: string | undefined): void;
  /** calls back once when a later holder takes the account; answers how to stop listening */
  onLost(lease: Lease, lost: () => void): () => void;
}

/** Hands the notices of LEASES_CHANNEL to the holders in this process. */
export function createLeaseNotifications(): LeaseNotifications {
  const holders = new Map<string, Set<{ lease: Lease; lost: () => void }>>();
  return {
    receive(payload) {
      const [accountId = '', epoch = ''] = payload?.split(' ') ?? [];
      for (const { lease, lost } of holders.get(accountId) ?? [])
        if (Number(epoch) > (lease.watchEpoch ?? Infinity)) lost();
    },
    onLost(lease, lost) {
      const holder = { lease, lost };
      const own = holders.get(lease.accountId) ?? new Set();
      holders.set(lease.accountId, own.add(holder));
      return () => {
        own.delete(holder);
        if (own.size === 0) holders.delete(lease.accountId);
      };
    },
  };
}

/**
 * One transaction of the account's holder. The account's row is locked first, so that writers of one account follow
 * one another.
 * @throws LeaseLost when another holder has it, or the account is being removed: nothing is written
 */
export async function inLease<T>(db: Db, lease: Lease, work: (tx: Tx) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    const held = lease.watchEpoch === null ? sql`` : sql`and watch_epoch = ${lease.watchEpoch}`;
    const { rows } = await tx.execute(
      sql`select 1 from accounts where id = ${lease.accountId} and removed_at is null ${held} for no key update`,
    );
    if (rows.length === 0) throw new LeaseLost(lease.accountId);
    return work(tx);
  });
}
