import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { type Admission, admit, digestOf } from '../../db/access/api-keys.ts';

/** How long a key and an account count as looked up, in milliseconds. */
const VALID_MS = 500;
/** Keys with accounts that are remembered. */
const REMEMBERED = 10_000;

/** The keys that calls come with, each looked up at most twice a second in this process. */
export interface Admissions {
  /** As `admit` of src/db/access/api-keys.ts. Keys and accounts that do not exist are looked up each time. */
  admit(key: string | Buffer, accountId: string | undefined): Promise<Admission | undefined>;
  /**
   * Called after a key was revoked or an account was removed: resolves when no process takes what it looked up before that
   * for valid, so that whoever gets the response finds it done everywhere.
   */
  forget(): Promise<void>;
}

/** In the memory of this process. */
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
