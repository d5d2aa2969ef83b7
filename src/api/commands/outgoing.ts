import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { ApiError } from '../../contract/errors.ts';
import type { SendInput } from '../../contract/sending.ts';
import type { Db } from '../../db/client.ts';
import { newId } from '../../new-id.ts';
import type { Storage } from '../../storage/storage.ts';

/** What sends and drafts are asked for with. */
export interface OutgoingDeps {
  client: Client;
  db: Db;
  storage: Storage;
}

/** A draft that is being saved or sent is waited for. */
const HELD_MS = 20_000;
const LOOK_EVERY_MS = 100;

/** Waits while another call changes the draft. */
export async function whenFree<T>(tryIt: () => Promise<T | undefined>): Promise<T> {
  const until = Date.now() + HELD_MS;
  for (;;) {
    const got = await tryIt();
    if (got !== undefined) return got;
    if (Date.now() > until) throw new ApiError('provider_error', 'another change of this draft takes long: try again');
    await sleep(LOOK_EVERY_MS);
  }
}

/** What the caller sent lies in the storage until the worker has composed it; mail text never enters a workflow. */
export async function storeInput(
  { storage }: OutgoingDeps,
  accountId: string,
  id: string,
  input: SendInput,
): Promise<string> {
  const key = `${accountId}/outgoing/${id}.json`;
  await storage.put(key, Buffer.from(JSON.stringify(input)));
  return key;
}

/** Whether opens or clicks are to be told. */
export function isTracked(tracking: SendInput['tracking_options'] | null): boolean {
  return tracking?.opens === true || tracking?.links === true;
}

/** A new `trk_…` id where opens or clicks are to be told. */
export function trackingIdFor(tracking: SendInput['tracking_options'] | null): string | null {
  return isTracked(tracking) ? newId('tracking') : null;
}

/** The answer for a draft that is not there, or no longer. */
export function draftNotFound(): ApiError {
  return new ApiError('not_found', 'there is no draft with that id');
}
