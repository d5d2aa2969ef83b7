import { randomBytes } from 'node:crypto';
import type { Queryable } from './db/client.ts';
import { readDataKey, saveDataKey } from './db/data-keys.ts';
import { PartUnavailable } from './outage.ts';
import { SealError, type Secrets } from './secrets.ts';
import type { DataKeys } from './storage/encrypted.ts';

const KEY_BYTES = 32;
/** A key that was used stays in memory for so long, unless its account is removed: each email has several objects. */
const CACHED_MS = 60_000;
const MOST_CACHED = 5_000;

/** The data keys of accounts, sealed in their rows. `drop` forgets the one of an account, as pools do. */
export function createDataKeys({ db, secrets }: { db: Queryable; secrets: Secrets }): DataKeys & {
  drop(accountId: string): void;
} {
  const cache = new Map<string, { key: Buffer; until: number }>();

  function cached(accountId: string): Buffer | undefined {
    const entry = cache.get(accountId);
    if (entry !== undefined && entry.until > Date.now()) return entry.key;
    cache.delete(accountId);
    return undefined;
  }

  function remember(accountId: string, key: Buffer): Buffer {
    const oldest = cache.keys().next().value;
    if (cache.size >= MOST_CACHED && oldest !== undefined) cache.delete(oldest);
    cache.set(accountId, { key, until: Date.now() + CACHED_MS });
    return key;
  }

  function open(accountId: string, sealed: Buffer): Buffer {
    try {
      return remember(accountId, Buffer.from(secrets.open(placeOf(accountId), sealed), 'base64'));
    } catch (cause) {
      if (!(cause instanceof SealError)) throw cause;
      throw new PartUnavailable('storage', { detail: 'no key of the settings opens the key of this mail', cause });
    }
  }

  async function find(accountId: string): Promise<Buffer | undefined> {
    const known = cached(accountId);
    if (known) return known;
    const sealed = await readDataKey(db, accountId);
    return sealed && open(accountId, sealed);
  }

  return {
    find,
    async take(accountId) {
      const found = await find(accountId);
      if (found) return found;
      const made = secrets.seal(placeOf(accountId), randomBytes(KEY_BYTES).toString('base64'));
      const sealed = await saveDataKey(db, accountId, made);
      return sealed && open(accountId, sealed);
    },
    drop(accountId) {
      cache.delete(accountId);
    },
  };
}

const placeOf = (id: string) => ({ table: 'accounts', column: 'data_key', id });
