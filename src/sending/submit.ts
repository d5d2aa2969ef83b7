import { setTimeout as sleep } from 'node:timers/promises';
import { withLoginConfirmed, type MailboxDeps } from '../mailbox/with-mailbox.ts';
import { createLimiter } from '../async.ts';
import type { Attendee } from '../contract/email.ts';
import { ApiError } from '../contract/errors.ts';
import type { Recipient } from '../contract/sending.ts';
import type { Queryable } from '../db/client.ts';
import { inLease } from '../db/lease.ts';
import { saveTrackingRecord } from '../db/tracking.ts';
import { loadSyncSettings, openCredentials, type SyncSettings } from '../mailbox/settings.ts';
import { newMessageId } from '../mime/message-ids.ts';
import type { ServerLogin } from '../contract/account.ts';
import { SubmitError, type Submitted, type Submitter } from '../smtp/submit.ts';
import { type ComposeDeps, composeDraft, composeInput, loadInput, loadSource, type ComposedSend } from './compose.ts';
import { assertDraftExists } from './draft-location.ts';
import { loadDraft, moveDraft, storedSource } from './draft-state.ts';
import { isInSent } from './file-sent-copy.ts';
import { isCopyIngested, loadSend, moveSend, saveComposed, type SendRow } from './send-state.ts';

export interface SubmitDeps extends MailboxDeps, Pick<ComposeDeps, 'publicUrl'> {
  submitter: Submitter;
}

/** A provider that files copies itself needs a moment: looks for the outcome of a send, and the time between them. */
const OUTCOME_CHECKS = 3;
const OUTCOME_WAIT_MS = 1_500;
/** Tries to note that a mail was sent: it has left, whatever our database does. */
const COMMIT_ATTEMPTS = 600;
const COMMIT_WAIT_MS = 500;

const GIVEN_UP = 'the send was given up';
const UNKNOWN =
  'the connection to the SMTP server ended before it said whether it took the mail: it may have been sent. Look into Sent, or ask the recipient, before sending it again';

/**
 * Sends a mail unless that was done, or may have been. True: it was sent just now. The numbered steps can each be the
 * last one before a crash: 1 compose and store it; 2 connect, log in, name the recipients; 3 commit `submitting`; 4 hand
 * over the message; 5 commit `sent`. A second try that finds `submitting` sends nothing: it looks for the copy that some
 * providers file.
 * @throws MailError when it was not sent; ApiError provider_error when that is not known
 */
export async function sendOnce(deps: SubmitDeps, send: SendRow): Promise<boolean> {
  if (send.state === 'sent') return false;
  if (send.state === 'failed') throw new ApiError('provider_error', GIVEN_UP);
  if (send.state !== 'queued') {
    await findOutcome(deps, send);
    return false;
  }
  const settings = await loadSyncSettings(deps.db, send.accountId);
  if (!settings) throw new ApiError('not_found', 'there is no account with that id');
  return limitLarge(deps, send, () => sendQueued(deps, send, settings));
}

/** A large mail is held in memory several times over while it is sent: one after the other. */
const largeInTurn = createLimiter(2);
const LARGE_BYTES = 1024 * 1024;

async function limitLarge<T>({ storage }: SubmitDeps, { inputKey }: SendRow, work: () => Promise<T>): Promise<T> {
  const size = inputKey === null ? undefined : await storage.size(inputKey);
  return size !== undefined && size < LARGE_BYTES ? work() : largeInTurn(work);
}

async function sendQueued(deps: SubmitDeps, send: SendRow, settings: SyncSettings): Promise<boolean> {
  const outgoing = await composeSend(deps, send, settings);
  if (send.draftId) await assertDraftExists(deps, send.accountId, send.draftId);
  /** whether this try, and not another that overtook it, has committed `submitting` */
  const own = { begun: false };
  let submitted: Submitted;
  try {
    submitted = await submit(deps, send, settings, outgoing, own);
  } catch (error) {
    const unknown = error instanceof SubmitError && error.outcome === 'unknown';
    // Whatever failed otherwise left nothing with the server: it may be tried again.
    if (own.begun && !unknown) await retryCommit(() => moveSend(deps.db, send.id, ['submitting'], 'queued'));
    if (!unknown && !(error instanceof Overtaken)) throw error;
    await findOutcome(deps, send);
    return false;
  }
  await retryCommit(() => recordSent(deps, send, submitted));
  return true;
}

/** Composes the mail and stores the copy for Sent; the row has its Message-ID from then on. */
async function composeSend(deps: SubmitDeps, send: SendRow, settings: SyncSettings): Promise<ComposedSend> {
  const { db, storage } = deps;
  const { accountId } = send;
  const tracking = send.trackingId && send.tracking ? { trackingId: send.trackingId, options: send.tracking } : null;
  const known = { date: new Date(), tracking };
  let outgoing: ComposedSend;
  let messageId: string;
  let bcc: Attendee[];
  if (send.draftId) {
    const draft = await loadDraft(db, accountId, send.draftId);
    const stored = draft?.emailId ? await storedSource(db, accountId, draft.emailId) : undefined;
    if (!draft || !stored) throw new ApiError('not_found', 'there is no draft with that id');
    messageId = send.messageId ?? draft.messageId ?? newMessageId(settings.owner.email);
    outgoing = await composeDraft(deps, settings, await loadSource(storage, stored.key), { ...known, messageId });
    if (outgoing.envelope.to.length === 0) throw new ApiError('invalid_parameters', 'to: the draft has no recipients');
    bcc = stored.bcc;
  } else {
    if (!send.inputKey) throw new ApiError('not_found', 'there is no such send any more');
    const input = await loadInput(storage, send.inputKey);
    messageId = send.messageId ?? newMessageId(input.from?.email ?? settings.owner.email);
    outgoing = await composeInput(deps, accountId, settings, input, { ...known, messageId });
    bcc = (input.bcc ?? []).map(attendeeOf);
  }
  const storageKey = `${accountId}/sent/${send.id}.eml`;
  await storage.put(storageKey, outgoing.sentCopy);
  if (!(await saveComposed(db, send.id, { messageId, storageKey, result: { rejected: [], bcc } })))
    throw new ApiError('provider_error', GIVEN_UP);
  Object.assign(send, { messageId, storageKey, result: { rejected: [], bcc } });
  return outgoing;
}

function attendeeOf({ email, display_name = '' }: Recipient): Attendee {
  return { identifier: email, display_name, identifier_type: 'EMAIL_ADDRESS' };
}

/** Submits; a refused login is confirmed by a second try and makes the account `disconnected`. */
async function submit(
  deps: SubmitDeps,
  send: SendRow,
  settings: SyncSettings,
  outgoing: ComposedSend,
  own: { begun: boolean },
): Promise<Submitted> {
  const { accountId } = send;
  const { smtpPassword: password } = openCredentials(deps.secrets, accountId, settings.credentials);
  const smtp: ServerLogin = { ...settings.smtp, password };
  const message = {
    envelope: outgoing.envelope,
    source: outgoing.delivered,
    beforeData: async () => {
      await begin(deps, send, outgoing);
      own.begun = true;
    },
  };
  return withLoginConfirmed(deps, accountId, 'smtp', {
    attempt: () => deps.submitter.submit(accountId, smtp, message),
    drop: () => deps.submitter.drop(accountId),
    tried: async () => settings.credentials,
  });
}

/** From here on the mail may have been sent; whoever opens it is to be known. */
async function begin({ db }: SubmitDeps, send: SendRow, { links }: ComposedSend): Promise<void> {
  const { id, accountId, trackingId, tracking } = send;
  const submitting = (tx: Queryable) => moveSend(tx, id, ['queued'], 'submitting');
  const begun =
    trackingId && tracking
      ? await inLease(db, { accountId, watchEpoch: null }, async (tx) => {
          const { label = null, opens = false } = tracking;
          const ids = { id: trackingId, accountId, emailId: id, messageId: send.messageId ?? '' };
          await saveTrackingRecord(tx, { ...ids, label, opens, links, createdAt: new Date() });
          return submitting(tx);
        })
      : await submitting(db);
  if (!begun) throw new Overtaken();
}

/** The row is not `queued` any more: another try is sending it, or has; or the caller gave up. */
class Overtaken extends Error {
  override readonly name = 'Overtaken';
}

/**
 * The outcome was lost: some providers file the copy themselves, which tells. It is never sent again.
 * @throws ApiError provider_error that says so
 */
async function findOutcome(deps: SubmitDeps, send: SendRow): Promise<void> {
  for (let look = 1; look <= OUTCOME_CHECKS; look++) {
    const now = await loadSend(deps.db, send.accountId, send.id);
    if (now?.state === 'sent') return;
    if (!now || now.state === 'failed') throw new ApiError('provider_error', GIVEN_UP);
    Object.assign(send, now);
    if ((await isCopyIngested(deps.db, send.id)) || (await isInSent(deps, send))) {
      await moveSend(deps.db, send.id, ['submitting', 'unknown'], 'sent', { result: { rejected: [] } });
      if (send.draftId) await moveDraft(deps.db, send.draftId, ['active'], 'sent');
      return;
    }
    if (look < OUTCOME_CHECKS) await sleep(OUTCOME_WAIT_MS);
  }
  await moveSend(deps.db, send.id, ['submitting'], 'unknown');
  throw new ApiError('provider_error', UNKNOWN);
}

/** Commits that the mail was taken. */
async function recordSent({ db }: SubmitDeps, send: SendRow, { rejected }: Submitted): Promise<void> {
  const { draftId } = send;
  // It has left, whatever another try made of the row meanwhile.
  const result = { ...send.result, rejected };
  const note = (tx: Queryable) =>
    moveSend(tx, send.id, ['queued', 'submitting', 'unknown', 'failed'], 'sent', { result });
  if (!draftId) return void (await note(db));
  await db.transaction(async (tx) => {
    await note(tx);
    await moveDraft(tx, draftId, ['active'], 'sent');
  });
}

async function retryCommit<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries >= COMMIT_ATTEMPTS) throw error;
      await sleep(COMMIT_WAIT_MS);
    }
  }
}
