import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import type { DraftSent, EmailSent, SendInput } from '../../contract/sending.ts';
import { sleep } from '../../async.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import { type PartUnavailable, unavailablePart } from '../../outage.ts';
import {
  type DraftRow,
  findDraft,
  recipientsOfDraft,
  releaseReservation,
  reserveDraft,
} from '../../outgoing/draft-state.ts';
import { inputKeyOf } from '../../outgoing/outgoing-input.ts';
import {
  giveUp,
  loadSend,
  type NewSend,
  recordSend,
  renewQueuedSend,
  type SendRow,
} from '../../outgoing/send-state.ts';
import { QUEUES, sendWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import { countRecipients } from '../send-input.ts';
import type { SendCommands } from '../deps.ts';
import {
  draftNotFound,
  type OutgoingDeps,
  recordedBefore,
  resolveOutgoing,
  storeRecordedInput,
  trackingIdFor,
  whenFree,
} from './outgoing.ts';
import { isWorkflowFailure, type OutageTexts, workflowErrorToApiError } from './run-errors.ts';
import { execute } from './run-workflow.ts';
import { createTurns, NotBegun, type Turns } from './turns.ts';

/** How long a message may wait for its turn, a worker and an SMTP server before it is given up. */
const LEAVE_MS = 28_000;
/** What each recipient adds (src/smtp/session.ts): an SMTP server without PIPELINING answers for one after the other. */
const RECIPIENT_MS = 500;
/** How long the caller waits after the message may have begun to leave. */
const ACCEPTED_MS = 85_000;

/**
 * Sends of one account under way: one submits while another composes or files its copy. More send no faster on two cores (six:
 * 12.5 a second, two: 12.3), and delay the calls of other accounts (`npm run bench -- send-burst`: 5.0 and 3.0 times as long).
 */
const SENDS_AT_ONCE = 2;

export interface SendCommandDeps extends OutgoingDeps {
  /** how long a message may take to begin to leave, ms; for tests */
  leaveMs?: number;
}

type SendDeps = SendCommandDeps & { turns: Turns };

/** Every workflow that sends, as one function each; failures are ApiErrors. */
export function createSendCommands(deps: SendCommandDeps): SendCommands {
  const own = { ...deps, turns: createTurns(SENDS_AT_ONCE) };
  return {
    sendEmail: (accountId, caller, id, input) => sendEmail(own, accountId, { caller, id }, input),
    sendDraft: (accountId, caller, id, draft) => sendDraft(own, accountId, { caller, id }, draft),
  };
}

/** The caller of a send, and the id of the sent email. */
interface NewSendId {
  caller: Caller;
  id: string;
}

async function sendEmail(
  deps: SendDeps,
  accountId: string,
  { caller, id }: NewSendId,
  input: SendInput,
): Promise<EmailSent> {
  const send = await recordInput(deps, accountId, { caller, id }, input).catch((error: unknown) =>
    recordedBefore(deps, () => loadSend(deps.db, accountId, id), error),
  );
  const { messageId, trackingId, result } = await runSend(deps, send, countRecipients(input));
  return {
    object: 'EmailSent',
    id: result?.emailId ?? id,
    account_id: accountId,
    message_id: messageId ?? '',
    tracking_id: trackingId,
    ...rejectedOf(result),
  };
}

/** Records a send, and stores its input. */
async function recordInput(
  deps: SendDeps,
  accountId: string,
  { caller, id }: NewSendId,
  input: SendInput,
): Promise<SendRow> {
  const { db } = deps;
  const outgoing = await resolveOutgoing(deps, { accountId, apiKeyId: caller.apiKeyId }, input);
  const { metadata = null, tracking_options: tracking = null } = input;
  const inputKey = inputKeyOf(accountId, id);
  const { send, isNew } = await recordSend(db, {
    ...ownerOf(caller),
    id,
    accountId,
    draftId: null,
    metadata,
    inputKey,
    tracking,
    trackingId: trackingIdFor(tracking),
    forwardedId: outgoing.forwarded?.emailId ?? null,
  });
  if (send.state === 'queued')
    await storeRecordedInput(deps, { inputKey, isNew }, outgoing, {
      renew: () => renewQueuedSend(db, id),
      giveUp: () => giveUp(db, id),
      notDone: OUTAGE.notDone,
    });
  return send;
}

async function sendDraft(
  deps: SendDeps,
  accountId: string,
  { caller, id }: NewSendId,
  draftId: string,
): Promise<DraftSent> {
  let send = await loadSend(deps.db, accountId, id);
  if (!send || send.state === 'failed') {
    const draft = await findDraft(deps.db, accountId, draftId);
    if (!draft) throw draftNotFound();
    const { metadata, tracking, trackingId, forwardedId } = draft;
    const given = { ...ownerOf(caller), id, accountId, draftId: draft.id, metadata, tracking, trackingId, forwardedId };
    send = await reserveForSending(deps, draft, { ...given, inputKey: null });
  }
  const recipients = send.draftId === null ? 0 : await recipientsOfDraft(deps.db, send.draftId);
  const { draftId: sent, result } = await runSend(deps, send, recipients);
  return { object: 'DraftSent', draft_id: sent ?? draftId, ...rejectedOf(result) };
}

/** Records the send and reserves the draft for it; joins another running send of the same draft. */
async function reserveForSending({ db }: OutgoingDeps, draft: DraftRow, given: NewSend): Promise<SendRow> {
  return whenFree(async () => {
    const reserved = await db.transaction(async (tx) => {
      const by = await reserveDraft(tx, draft.id, given.id);
      return by === given.id ? (await recordSend(tx, given)).send : by;
    });
    if (reserved === undefined) throw draftNotFound();
    if (typeof reserved !== 'string') return reserved;
    return isId('email', reserved) ? loadSend(db, draft.accountId, reserved) : undefined;
  });
}

/** Has the workflow make the send. @returns the send once the SMTP server has accepted it */
async function runSend(
  deps: SendDeps,
  { id, accountId, draftId, state }: SendRow,
  recipients: number,
): Promise<SendRow> {
  const { db } = deps;
  try {
    if (state !== 'sent') await untilAccepted(deps, { id, accountId, draftId }, recipients * RECIPIENT_MS);
  } catch (error) {
    // the workflow was started, but its row cannot be read
    const away = error instanceof ApiError ? undefined : unavailablePart(error);
    throw away ? unavailable(away, OUTAGE.mayBeDone) : error;
  }
  const sent = await loadSend(db, accountId, id);
  if (!sent) throw new ApiError('not_found', 'no account has this id');
  return sent;
}

/**
 * Waits until the SMTP server has accepted the message. The result of the workflow decides; without one in time the row
 * does: a send that has not begun to leave is given up, any other may have been made.
 */
async function untilAccepted(
  deps: SendDeps,
  { id, accountId, draftId }: Pick<SendRow, 'id' | 'accountId' | 'draftId'>,
  addedMs: number,
): Promise<void> {
  const { db } = deps;
  const load = () => loadSend(db, accountId, id);
  let isOver = false;
  // the run may have given it up before, and not have ended yet
  const isNotSent = async () => (isOver ||= (await giveUp(db, id)) || (await load())?.state === 'failed');
  try {
    await execute(deps, {
      type: WORKFLOWS.sendEmail,
      taskQueue: QUEUES.sends,
      workflowId: sendWorkflowId(id),
      accountId,
      resourceIds: [id, draftId],
      args: [{ accountId, sendId: id }],
      summary: draftId ? `send ${id}, which is ${draftId}` : `send ${id}`,
      turn: { turns: deps.turns, key: accountId },
      renew: () => renewQueuedSend(db, id),
      deadlineMs: (deps.leaveMs ?? LEAVE_MS) + addedMs,
      extendMs: async () => ((await isNotSent()) ? 0 : ACCEPTED_MS),
      until: ({ handle, stored, over }) => Promise.race([handle.result(), stored, untilShown(load, over)]),
    });
  } catch (error) {
    const state = (await load())?.state;
    if (state === 'sent') return;
    const outage = { ...OUTAGE, ...(state === 'failed' ? { mayBeDone: OUTAGE.notDone } : {}) };
    if (isWorkflowFailure(error)) throw workflowErrorToApiError(error, MAY_BE_SENT, outage);
    const away = unavailablePart(error);
    if (await isNotSent()) {
      await releaseReservation(db, id);
      if (error instanceof NotBegun) throw workflowErrorToApiError(error, MAY_BE_SENT, OUTAGE);
      throw away ? unavailable(away, OUTAGE.notDone) : new ApiError('provider_error', NOT_SENT, { cause: error });
    }
    throw away ? unavailable(away, outage.mayBeDone) : new ApiError('provider_error', MAY_BE_SENT, { cause: error });
  }
}

const CHECK_EVERY_MS = 1_000;

/** Resolves when the SMTP server has accepted the message, although its copy is still being filed. */
async function untilShown(load: () => Promise<SendRow | undefined>, over: AbortSignal): Promise<void> {
  do await sleep(CHECK_EVERY_MS, over);
  while (!over.aborted && !(await load().catch(() => undefined))?.hasProvisional);
}

function unavailable(away: PartUnavailable, what: string): ApiError {
  return new ApiError('service_unavailable', `${away.detail}: ${what}`, { cause: away });
}

const OUTAGE: OutageTexts = { notDone: 'the email was not sent', mayBeDone: 'the email may have been sent' };
const NOT_SENT = 'the email was not sent: no SMTP server accepted it in time';
const MAY_BE_SENT = 'the SMTP server has not accepted the email yet: it may still be sent';

function ownerOf({ apiKeyId, apiKeyName }: Caller): Pick<NewSend, 'apiKeyId' | 'apiKeyName'> {
  return { apiKeyId, apiKeyName };
}

function rejectedOf(result: SendRow['result']): { rejected?: string[] } {
  return result && result.rejected.length > 0 ? { rejected: result.rejected } : {};
}
