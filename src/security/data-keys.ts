import { randomBytes } from 'node:crypto';
import type { Queryable } from '../db/driver/client.ts';
import { dataKeyTable, readDataKey, saveDataKey } from '../db/coordination/data-keys.ts';
import { createLeaseNotifications } from '../db/coordination/lease.ts';
import type { Notified } from '../db/driver/listen.ts';
import { PartUnavailable } from '../outage.ts';
import { SealError, type Secrets } from './secrets.ts';
import type { DataKeys } from '../storage/encrypted.ts';

const KEY_BYTES = 32;
/** Used keys stay in memory for so long, unless the account is removed: each email has several objects. */
const CACHED_MS = 60_000;
const MOST_CACHED = 5_000;

/** Data keys with a cache in memory. */
export interface CachedDataKeys extends DataKeys {
  /** forgets the key of an account */
  drop(accountId: string): void;
  /** forgets all: a removal may have been missed */
  dropAll(): void;
}

/** The data keys of accounts and uploads, sealed in their rows. */
export function createDataKeys({ db, secrets }: { db: Queryable; secrets: Secrets }): CachedDataKeys {
  const cache = new Map<string, { key: Buffer; until: number }>();
  /** a key that was read before the last drop is not cached: its account may be the dropped one */
  let drops = 0;

  function cached(accountId: string): Buffer | undefined {
    const entry = cache.get(accountId);
    if (entry !== undefined && entry.until > performance.now()) return entry.key;
    cache.delete(accountId);
    return undefined;
  }

  function remember(accountId: string, key: Buffer): Buffer {
    const oldest = cache.keys().next().value;
    if (cache.size >= MOST_CACHED && oldest !== undefined) cache.delete(oldest);
    cache.set(accountId, { key, until: performance.now() + CACHED_MS });
    return key;
  }

  function open(accountId: string, sealed: Buffer, readAt: number): Buffer {
    try {
      const key = Buffer.from(secrets.open(placeOf(accountId), sealed), 'base64');
      return readAt === drops ? remember(accountId, key) : key;
    } catch (cause) {
      if (!(cause instanceof SealError)) throw cause;
      throw new PartUnavailable('storage', {
        detail: 'the data key cannot be decrypted with the configured keys',
        cause,
      });
    }
  }

  async function find(accountId: string): Promise<Buffer | undefined> {
    const known = cached(accountId);
    if (known) return known;
    const readAt = drops;
    const sealed = await readDataKey(db, accountId);
    return sealed && open(accountId, sealed, readAt);
  }

  return {
    find,
    async take(accountId) {
      const found = await find(accountId);
      if (found) return found;
      const made = secrets.seal(placeOf(accountId), randomBytes(KEY_BYTES).toString('base64'));
      const readAt = drops;
      const sealed = await saveDataKey(db, accountId, made);
      return sealed && open(accountId, sealed, readAt);
    },
    drop(accountId) {
      drops += 1;
      cache.delete(accountId);
    },
    dropAll() {
      drops += 1;
      cache.clear();
    },
  };
}

/**
 * A listener of LEASES_CHANNEL that forgets the key of each account whose removal begins in any process, and all keys
 * when notifications were missed.
 */
export function forgetOnRemoval(keys: Pick<CachedDataKeys, 'drop' | 'dropAll'>): Notified {
  const removals = createLeaseNotifications();
  removals.onRemoved((accountId) => keys.drop(accountId));
  return (payload) => {
    if (payload === undefined) keys.dropAll();
    else removals.receive(payload);
  };
}

const placeOf = (id: string) => ({ table: dataKeyTable(id), column: 'data_key', id });
