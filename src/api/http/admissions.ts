import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { type Admission, admit, digestOf } from '../../db/access/api-keys.ts';

/** How long the look-up of a key and an account remains valid, ms. */
const VALID_MS = 500;
/** Size of the cache, in pairs of key and account. */
const REMEMBERED = 10_000;

/** Cache of API keys: each key is looked up at most twice a second per process. */
export interface Admissions {
  /** Looks up a key, and whether an account exists. Unknown keys and accounts are not cached. */
  admit(key: string | Buffer, accountId: string | undefined): Promise<Admission | undefined>;
  /**
   * Call after a key is revoked or an account is removed: resolves when no process uses an earlier look-up, so the
   * change has taken effect everywhere before the caller gets the response.
   */
  forget(): Promise<void>;
}

/** Creates a cache in the memory of this process. */
export function createAdmissions(pool: pg.Pool): Admissions {
  const known = new Map<string, { admission: Admission; until: number }>();
  return {
    async admit(key, accountId) {
      const digest = typeof key === 'string' ? digestOf(key) : key;
      const name = `${digest.toString('base64')} ${accountId ?? ''}`;
      const began = performance.now();
      const entry = known.get(name);
      if (entry && entry.until > began) return entry.admission;
      const admission = await admit(pool, key, accountId);
      if (admission && (accountId === undefined || admission.accountExists)) {
        if (known.size >= REMEMBERED) known.clear();
        known.set(name, { admission, until: began + Math.min(VALID_MS, admission.expiresInMs ?? Infinity) });
      }
      return admission;
    },
    async forget() {
      known.clear();
      await sleep(VALID_MS);
    },
  };
}
