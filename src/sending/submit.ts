import { setTimeout as sleep } from 'node:timers/promises';
import { withRenewal } from '../async.ts';
import { ApiError } from '../contract/errors.ts';
import type { Queryable } from '../db/driver/client.ts';
import { inLease } from '../db/coordination/lease.ts';
import { saveTrackingRecord } from '../db/queries/tracking.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { loginOf, withLogin } from '../mailbox/logins.ts';
import { withLoginConfirmed } from '../mailbox/confirm-login.ts';
import type { MailboxDeps } from '../mailbox/with-mailbox.ts';
import { newId } from '../new-id.ts';
import { isTrackedElsewhere } from '../outgoing/sent-mail.ts';
import { SubmitError, type Submitted, type Submitter } from '../smtp/submit.ts';
import { type ComposeDeps, composeSend, type LoadedSend, type OutgoingForm } from './compose.ts';
import { markDraftSent } from '../outgoing/draft-state.ts';
import { assertDraftExists } from './drafts.ts';
import { findCopyOfLost, findInSent, type LostSendDeps } from './lost-sends.ts';
import { deleteUnneeded } from './unneeded-files.ts';
import {
  type Composed,
  isCopyIngested,
  loadSend,
  markFoundInSent,
  markOutcomeUnknown,
  markSent,
  markSentBefore,
  markSubmitting,
  renewSend,
  requeue,
  type SendRow,
} from '../outgoing/send-state.ts';

export interface SubmitDeps extends MailboxDeps, ComposeDeps, LostSendDeps {
  submitter: Submitter;
  /** milliseconds between two renewals of a row; for tests */
  renewMs?: number;
  /** milliseconds between two looks at the outcome of another attempt; for tests */
  outcomeWaitMs?: number;
}

/** How often the outcome of a send is checked, and the time between: providers that file copies need some seconds. */
const OUTCOME_CHECKS = 3;
const OUTCOME_WAIT_MS = 1_500;
/** An attempt renews its row every 10 s: one that has not for so long is dead, ms. */
const ALIVE_MS = 25_000;
/** Attempts to record that a message was sent: it has left, even if our database is unavailable. */
const COMMIT_ATTEMPTS = 600;
const COMMIT_WAIT_MS = 500;

const GIVEN_UP = 'this send was given up';
const UNKNOWN =
  'the connection to the SMTP server ended before the server confirmed the email, so it may have been sent. Check the Sent folder, or ask the recipient, before sending it again';

/** The outcome of an attempt to send. */
export interface SendOutcome {
  /** the send as it is now */
  send: SendRow;
  /** its copy for Sent, if this attempt submitted the message; null: an earlier one did */
  firstCopy: Buffer | null;
}

/**
 * Sends a message unless it was or may have been sent. Each numbered step can be the last one before a crash:
 * 1 compose it and store it; 2 connect, log in, name the recipients; 3 commit `submitting`; 4 transmit the message;
 * 5 commit `sent`. A second attempt that finds `submitting` sends nothing: it waits while the first one is alive, then looks for
 * the copy that some providers file.
 * @throws MailError when it was not sent; ApiError provider_error when the outcome is unknown
 */
export async function sendOnce(deps: SubmitDeps, loaded: LoadedSend): Promise<SendOutcome> {
  const { send } = loaded;
  if (send.state === 'sent') return { send, firstCopy: null };
  if (send.state === 'failed') throw new ApiError('provider_error', GIVEN_UP);
  if (send.state !== 'queued') return { send: await outcomeOfOther(deps, loaded), firstCopy: null };
  const renew = () => renewSend(deps.db, send.id);
  // After an outage: its draft must not be reserved for another send while this attempt is under way.
  if (send.unchangedMs > ALIVE_MS) await renew();
  const sent = await withRenewal(renew, () => sendQueued(deps, loaded), deps.renewMs);
  if (sent === 'overtaken') return { send: await outcomeOfOther(deps, loaded), firstCopy: null };
  return sent === 'unknown' ? { send: await findOutcome(deps, loaded), firstCopy: null } : sent;
}

/** `unknown`: the message may have been sent; `overtaken`: another attempt or send is ahead, or the caller gave up. */
async function sendQueued(deps: SubmitDeps, loaded: LoadedSend): Promise<SendOutcome | 'unknown' | 'overtaken'> {
  const attempt = await prepare(deps, loaded);
  const { send } = attempt;
  const sentBefore = await findSentBefore(deps, attempt);
  if (sentBefore) return { send: sentBefore, firstCopy: null };
  let submitted: Submitted;
  try {
    submitted = await submit(deps, attempt);
  } catch (error) {
    const unknown = error instanceof SubmitError && error.outcome === 'unknown';
    // After any other failure the server has accepted nothing: it may be sent again.
    if (attempt.isSubmitting && !unknown) {
      await retryCommit(() => requeue(deps.db, send.id, attempt.composed.storageKey));
    }
    if (!unknown) await deleteUnneeded(deps, [attempt.composed.storageKey]);
    if (unknown) return 'unknown';
    if (error instanceof Overtaken) return 'overtaken';
    throw error;
  }
  const result = { ...send.result, rejected: submitted.rejected };
  const serverMessageId = submitted.messageId ?? null;
  await retryCommit(() => recordSent(deps, send, (tx) => markSent(tx, send.id, result, serverMessageId)));
  return { send: { ...send, state: 'sent', result, serverMessageId }, firstCopy: attempt.sentCopy };
}

/** The send, if it was made before the store was set back, or as an earlier send of its draft. */
async function findSentBefore(deps: SubmitDeps, attempt: Attempt): Promise<SendRow | undefined> {
  const { send } = attempt;
  const { trackingId: _, ...composed } = attempt.composed;
  const found = await findInSent(deps, attempt, composed.messageId);
  if (!found) return undefined;
  const { id, accountId, draftId } = send;
  const result = await inLease(deps.db, { accountId, watchEpoch: null }, async (tx) => {
    const marked = await markSentBefore(tx, { id, accountId }, { ...composed, ...found });
    if (marked && draftId) await markDraftSent(tx, draftId);
    return marked;
  });
  if (result) return { ...send, ...found, state: 'sent', result };
  // the caller gave up, or another attempt was faster
  throw new MailError('provider_error', 'smtp', 'the message was not sent');
}

interface Attempt extends LoadedSend {
  message: OutgoingForm;
  composed: Composed;
  sentCopy: Buffer;
  /** this attempt may have committed `submitting` */
  isSubmitting: boolean;
}

/** Step 1. */
async function prepare(deps: SubmitDeps, { settings, send: given }: LoadedSend): Promise<Attempt> {
  const trackingId = await ownTrackingId(deps, given);
  const loaded = { settings, send: { ...given, trackingId } };
  const { send } = loaded;
  const { message, sentCopy, messageId, storageKey, bcc, draftEmailId } = await composeSend(deps, loaded);
  const replaced = trackingId !== null && trackingId !== given.trackingId ? { trackingId } : {};
  const composed = { messageId, storageKey, result: { rejected: [], bcc }, ...replaced };
  if (draftEmailId) {
    await assertDraftExists(deps, send.accountId, draftEmailId).catch(async (error: unknown) => {
      await deleteUnneeded(deps, [storageKey]);
      throw error;
    });
  }
  return { ...loaded, send: { ...send, ...composed }, composed, sentCopy, message, isSubmitting: false };
}

/** The tracking id of the message. That of a draft stays with an earlier send that may have left: its links lead where they led. */
async function ownTrackingId({ db }: SubmitDeps, { id, draftId, trackingId }: SendRow): Promise<string | null> {
  if (draftId === null || trackingId === null) return trackingId;
  return (await isTrackedElsewhere(db, id, trackingId)) ? newId('tracking') : trackingId;
}

/** Submits the message; a login that is refused twice makes the account `disconnected`. */
async function submit(deps: SubmitDeps, attempt: Attempt): Promise<Submitted> {
  const { send, settings, message } = attempt;
  const { accountId } = send;
  const outgoing = {
    envelope: message.envelope,
    source: message.delivered,
    beforeData: async () => {
      // before the commit, whose response may be lost
      attempt.isSubmitting = true;
      await begin(deps, attempt);
    },
  };
  return withLoginConfirmed(deps, accountId, 'smtp', {
    attempt: async () => {
      const smtp = await loginOf(deps, accountId, settings, 'smtp');
      return withLogin(deps, accountId, smtp, () => deps.submitter.submit(accountId, smtp, outgoing));
    },
    drop: () => deps.submitter.drop(accountId),
    tried: async () => settings.credentials,
  });
}

/** Commits `submitting` with the tracking record: from here on the message may be sent, and opened. */
async function begin({ db }: SubmitDeps, { send, composed, message: { links } }: Attempt): Promise<void> {
  const { id, accountId, trackingId, tracking } = send;
  const begun =
    trackingId && tracking
      ? await inLease(db, { accountId, watchEpoch: null }, async (tx) => {
          const { label = null, opens = false } = tracking;
          const ids = { id: trackingId, accountId, emailId: id, messageId: send.messageId ?? '' };
          await saveTrackingRecord(tx, { ...ids, label, opens, links, createdAt: new Date() });
          return markSubmitting(tx, id, composed);
        })
      : await markSubmitting(db, id, composed);
  if (!begun) throw new Overtaken();
}

/** Another attempt is sending or has sent it, the caller gave up, or another send has reserved its draft. */
class Overtaken extends Error {
  override readonly name = 'Overtaken';
}

/** The outcome as another attempt reports it, which may take as long as the SMTP server; else as `findOutcome`. */
async function outcomeOfOther(deps: SubmitDeps, loaded: LoadedSend): Promise<SendRow> {
  const { id, accountId } = loaded.send;
  for (;;) {
    const send = await loadSend(deps.db, accountId, id);
    if (send?.state !== 'submitting' || send.unchangedMs > ALIVE_MS) break;
    await sleep(deps.outcomeWaitMs ?? OUTCOME_WAIT_MS);
  }
  return findOutcome(deps, loaded);
}

/**
 * Finds out whether a message was sent whose outcome was lost: a copy in Sent, which some providers file themselves, proves
 * it. It is never sent again.
 * @returns the send, if it was sent
 * @throws ApiError provider_error if the outcome stays unknown; MailError if nothing was sent
 */
async function findOutcome(deps: SubmitDeps, loaded: LoadedSend): Promise<SendRow> {
  const { id, accountId } = loaded.send;
  const { db, outcomeWaitMs = OUTCOME_WAIT_MS } = deps;
  for (let check = 1; check <= OUTCOME_CHECKS; check++) {
    const send = await loadSend(db, accountId, id);
    if (send?.state === 'sent') return send;
    if (!send || send.state === 'failed') throw new ApiError('provider_error', GIVEN_UP);
    const made = await findMade(deps, { ...loaded, send });
    if (made) return made;
    if (check < OUTCOME_CHECKS) await sleep(outcomeWaitMs);
  }
  // Queued again: the SMTP server has accepted nothing, and the next attempt sends it.
  if (!(await markOutcomeUnknown(db, id)) && (await loadSend(db, accountId, id))?.state === 'queued') {
    throw new MailError('provider_error', 'smtp', 'the message was not sent');
  }
  throw new ApiError('provider_error', UNKNOWN);
}

/** The send, if its copy shows that it was made. */
async function findMade(deps: SubmitDeps, loaded: LoadedSend): Promise<SendRow | undefined> {
  const { send } = loaded;
  const copy = (await isCopyIngested(deps.db, send.id)) ? send : await findCopyOfLost(deps, loaded);
  if (!copy) return undefined;
  const { id, accountId, draftId } = send;
  const { serverMessageId } = copy;
  const found = { result: { ...send.result, rejected: [] }, serverMessageId };
  const result = await inLease(deps.db, { accountId, watchEpoch: null }, async (tx) => {
    const marked = await markFoundInSent(tx, { id, accountId }, found);
    if (marked && draftId) await markDraftSent(tx, draftId);
    return marked;
  });
  return result && { ...send, state: 'sent', serverMessageId, result };
}

/** Commits that the message and its draft were sent; false when the row has ended in another state. */
async function recordSent(
  { db }: SubmitDeps,
  { draftId }: SendRow,
  mark: (tx: Queryable) => Promise<boolean>,
): Promise<boolean> {
  if (!draftId) return mark(db);
  return db.transaction(async (tx) => {
    const isMarked = await mark(tx);
    if (isMarked) await markDraftSent(tx, draftId);
    return isMarked;
  });
}

async function retryCommit<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= COMMIT_ATTEMPTS) throw error;
      await sleep(COMMIT_WAIT_MS);
    }
  }
}
