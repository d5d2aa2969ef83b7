import { setTimeout as sleep } from 'node:timers/promises';
import { withRenewal } from '../../async.ts';
import { ApiError } from '../../contract/errors.ts';
import type { SendInput } from '../../contract/sending.ts';
import type { Db } from '../../db/driver/client.ts';
import { newId } from '../../new-id.ts';
import { unavailablePart } from '../../outage.ts';
import { type InputOwner, type OutgoingInput, resolveInput, storeInput } from '../../outgoing/outgoing-input.ts';
import type { Storage } from '../../storage/storage.ts';
import { checkFiles, DEFAULT_SEND_LIMITS, type SendLimits } from '../send-input.ts';
import type { RunDeps } from './run-workflow.ts';

/** The dependencies of the commands for sends and drafts. */
export interface OutgoingDeps extends RunDeps {
  db: Db;
  storage: Storage;
  sendLimits?: SendLimits;
}

/**
 * The input with the email that it answers or forwards, and with the stored files and uploads that it names.
 * @throws ApiError not_found; invalid_parameters when they make it exceed the limits of an email
 */
export async function resolveOutgoing(
  { db, sendLimits = DEFAULT_SEND_LIMITS }: Pick<OutgoingDeps, 'db' | 'sendLimits'>,
  owner: InputOwner,
  input: SendInput,
): Promise<OutgoingInput> {
  const outgoing = await resolveInput(db, owner, input);
  const { forwarded, files = [], uploads = [] } = outgoing;
  const whole = forwarded && { count: 1, bytes: forwarded.size };
  const ofForward = (input.forward_as === 'attachment' ? whole : forwarded?.files) ?? { count: 0, bytes: 0 };
  const bytes = [...files, ...uploads].reduce((sum, file) => sum + (file?.size ?? 0), ofForward.bytes);
  checkFiles(input.attachments ?? [], { count: ofForward.count, bytes }, sendLimits);
  return outgoing;
}

/**
 * The recorded row of a call whose input can no longer be resolved, since a file that it names is gone: a call with the same
 * Idempotency-Key has stored it before. @throws the error, when none has
 */
export async function recordedBefore<Row extends { state: string; inputKey: string | null }>(
  { storage }: Pick<OutgoingDeps, 'storage'>,
  load: () => Promise<Row | undefined>,
  error: unknown,
): Promise<Row> {
  const isGone = error instanceof ApiError && ['not_found', 'invalid_parameters'].includes(error.code);
  const row = isGone ? await load() : undefined;
  if (row === undefined || row.state === 'failed') throw error;
  const isBegun = row.state !== 'queued' && row.state !== 'saving';
  if (!isBegun && row.inputKey !== null && (await storage.size(row.inputKey)) === undefined) throw error;
  return row;
}

/** How long a call waits for a draft that is being saved or sent, and how often it checks. */
const RESERVED_MS = 20_000;
const CHECK_EVERY_MS = 100;

/** Repeats `attempt`, which returns undefined while another call has reserved the draft. @throws ApiError after 20 s */
export async function whenFree<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  const until = performance.now() + RESERVED_MS;
  for (;;) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (performance.now() > until) {
      throw new ApiError('provider_error', 'another update of this draft is in progress; retry later');
    }
    await sleep(CHECK_EVERY_MS);
  }
}

/**
 * Stores the caller's input for a row that was just recorded, or was recorded by a call that died before storing it. If that
 * fails, `giveUp` ends the row: no workflow is started for it.
 */
export async function storeRecordedInput(
  { storage, renewMs }: OutgoingDeps,
  { inputKey, isNew }: { inputKey: string | null; isNew: boolean },
  outgoing: OutgoingInput,
  { renew, giveUp, notDone }: { renew: () => Promise<void>; giveUp: () => Promise<unknown>; notDone: string },
): Promise<void> {
  if (!inputKey) return;
  try {
    if (isNew || (await storage.size(inputKey)) === undefined) {
      await withRenewal(renew, () => storeInput(storage, inputKey, outgoing), renewMs);
    }
  } catch (error) {
    // if the database is unavailable too, housekeeping gives the row up
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

/** The error for a draft that does not exist. */
export function draftNotFound(): ApiError {
  return new ApiError('not_found', 'no draft has this id');
}
