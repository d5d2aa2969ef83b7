import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../contract/errors.ts';
import type { SendInput } from '../../contract/sending.ts';
import type { Db } from '../../db/driver/client.ts';
import { newId } from '../../new-id.ts';
import { unavailablePart } from '../../outage.ts';
import { type OutgoingInput, storeInput } from '../../outgoing/outgoing-input.ts';
import type { Storage } from '../../storage/storage.ts';
import type { RunDeps } from './run-workflow.ts';

/** What the commands for sends and drafts need. */
export interface OutgoingDeps extends RunDeps {
  db: Db;
  storage: Storage;
}

/** How long a call waits for a draft that is being saved or sent, and how often it checks. */
const RESERVED_MS = 20_000;
const CHECK_EVERY_MS = 100;

/** Attempts something with a draft until no other call has reserved it: `attempt` returns undefined until then. */
export async function whenFree<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  const until = Date.now() + RESERVED_MS;
  for (;;) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (Date.now() > until) {
      throw new ApiError('provider_error', 'another change of this draft is taking long: try again');
    }
    await sleep(CHECK_EVERY_MS);
  }
}

/**
 * Stores what the caller sent for a row that was just recorded, or was recorded by a call that died before it stored it.
 * Where that fails, `giveUp` ends the row: no workflow is started for it.
 */
export async function storeRecordedInput(
  { storage }: OutgoingDeps,
  { inputKey, isNew }: { inputKey: string | null; isNew: boolean },
  outgoing: OutgoingInput,
  { giveUp, notDone }: { giveUp: () => Promise<unknown>; notDone: string },
): Promise<void> {
  if (!inputKey) return;
  try {
    if (isNew || (await storage.size(inputKey)) === undefined) await storeInput(storage, inputKey, outgoing);
  } catch (error) {
    // where the database is away too, housekeeping gives the row up
    await giveUp().catch(() => undefined);
    const away = unavailablePart(error);
    throw away ? new ApiError('service_unavailable', `${away.detail}: ${notDone}`, { cause: error }) : error;
  }
}

/** Whether opens or clicks are reported. */
export function isTracked(tracking: SendInput['tracking_options'] | null): boolean {
  return tracking?.opens === true || tracking?.links === true;
}

/** A new `trk_…` id where opens or clicks are reported. */
export function trackingIdFor(tracking: SendInput['tracking_options'] | null): string | null {
  return isTracked(tracking) ? newId('tracking') : null;
}

/** The error for a draft that does not exist, or no longer. */
export function draftNotFound(): ApiError {
  return new ApiError('not_found', 'there is no draft with that id');
}
