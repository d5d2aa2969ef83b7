import type { Client } from '@temporalio/client';
import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import type { DraftSent, EmailSent, SendInput } from '../../contract/sending.ts';
import type { Caller } from '../../db/api-keys.ts';
import type { Db } from '../../db/client.ts';
import { type DraftRow, findDraft, reserveDraft, releaseReservation } from '../../sending/draft-state.ts';
import { loadSend, moveSend, type NewSend, recordSend, type SendRow } from '../../sending/send-state.ts';
import { sendWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { SendCommands } from '../deps.ts';
import { draftNotFound, type OutgoingDeps, storeInput, trackingIdFor, whenFree } from './outgoing.ts';
import { awaitRun, execute, isAnswer, workflowErrorToApiError } from './run-workflow.ts';

/** So long a mail may wait for a worker and an SMTP server before it is called back. */
const LEAVE_MS = 28_000;
/** So long after it has begun to leave. */
const TAKEN_MS = 85_000;

/** Every workflow that sends, as one function each; what fails comes back as ApiError. */
export function createSendCommands(deps: OutgoingDeps): SendCommands {
  return {
    sendEmail: (accountId, caller, id, input) => sendEmail(deps, accountId, caller, id, input),
    sendDraft: (accountId, caller, id, draft) => sendDraft(deps, accountId, caller, id, draft),
  };
}

async function sendEmail(
  deps: OutgoingDeps,
  accountId: string,
  caller: Caller,
  id: string,
  input: SendInput,
): Promise<EmailSent> {
  let send = await loadSend(deps.db, accountId, id);
  if (!send || send.state === 'failed') {
    const inputKey = await storeInput(deps, accountId, id, input);
    const { metadata = null, tracking_options: tracking = null } = input;
    const noted = { ...ownerOf(caller), id, accountId, draftId: null, metadata, inputKey };
    send = await recordSend(deps.db, { ...noted, tracking, trackingId: trackingIdFor(tracking) }, new Date());
  }
  const { messageId, trackingId, result } = await runSend(deps, send);
  return {
    object: 'EmailSent',
    id,
    account_id: accountId,
    message_id: messageId ?? '',
    tracking_id: trackingId,
    ...rejectedOf(result),
  };
}

async function sendDraft(
  deps: OutgoingDeps,
  accountId: string,
  caller: Caller,
  id: string,
  draftId: string,
): Promise<DraftSent> {
  let send = await loadSend(deps.db, accountId, id);
  if (!send || send.state === 'failed') {
    const draft = await findDraft(deps.db, accountId, draftId);
    if (!draft) throw draftNotFound();
    const { metadata, tracking, trackingId } = draft;
    const noted = {
      ...ownerOf(caller),
      id,
      accountId,
      draftId: draft.id,
      metadata,
      tracking,
      trackingId,
      inputKey: null,
    };
    send = await holdForSending(deps, draft, noted);
  }
  const { draftId: sent, result } = await runSend(deps, send);
  return { object: 'DraftSent', draft_id: sent ?? draftId, ...rejectedOf(result) };
}

/** Notes the send with the draft reserved for it. Another send of the same draft that is under way is joined. */
async function holdForSending({ db }: OutgoingDeps, draft: DraftRow, noted: NewSend): Promise<SendRow> {
  return whenFree(async () => {
    const held = await db.transaction(async (tx) => {
      const by = await reserveDraft(tx, draft.id, noted.id);
      return by === noted.id ? recordSend(tx, noted, new Date()) : by;
    });
    if (held === undefined) throw draftNotFound();
    if (typeof held !== 'string') return held;
    return isId('email', held) ? loadSend(db, draft.accountId, held) : undefined;
  });
}

/** Hands the send to its workflow, and answers its row when the mail has been taken. */
async function runSend({ client, db }: OutgoingDeps, { id, accountId, state }: SendRow): Promise<SendRow> {
  const sentBefore = until(async () => (await loadSend(db, accountId, id))?.hasProvisional);
  try {
    if (state !== 'sent') await Promise.race([untilTaken(client, db, accountId, id), sentBefore.done]);
  } finally {
    sentBefore.stop();
  }
  const sent = await loadSend(db, accountId, id);
  if (!sent) throw new ApiError('not_found', 'there is no account with that id');
  return sent;
}

/**
 * Waits until the mail has been taken. What the run says counts; where nothing is heard of it, the row does: a send that
 * has not begun to leave is called back, any other may have been made.
 */
async function untilTaken(client: Client, db: Db, accountId: string, id: string): Promise<void> {
  const args = [{ accountId, sendId: id }];
  const run = { type: WORKFLOWS.sendEmail, workflowId: sendWorkflowId(id), accountId, args, summary: `send ${id}` };
  const waits = [
    () => execute(client, { ...run, deadlineMs: LEAVE_MS }),
    () => awaitRun(client, run.workflowId, TAKEN_MS),
  ];
  for (const wait of waits) {
    try {
      return await wait();
    } catch (error) {
      if ((await loadSend(db, accountId, id))?.state === 'sent') return;
      if (isAnswer(error)) throw workflowErrorToApiError(error, MAY_BE_SENT);
      if (await moveSend(db, id, ['queued'], 'failed')) {
        await releaseReservation(db, id);
        throw new ApiError('provider_error', NOT_SENT, { cause: error });
      }
    }
  }
  throw new ApiError('provider_error', MAY_BE_SENT);
}

const LOOK_FOR_SENT_MS = 1_000;

/** Looks again and again until what is waited for is so. */
function until(isSo: () => Promise<boolean | undefined>): { done: Promise<void>; stop(): void } {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const done = new Promise<void>((resolve) => {
    const look = async () => {
      if (await isSo().catch(() => false)) resolve();
      else if (!stopped) timer = setTimeout(look, LOOK_FOR_SENT_MS);
    };
    timer = setTimeout(look, LOOK_FOR_SENT_MS);
  });
  return {
    done,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

const NOT_SENT = 'the mail was not sent: no SMTP server took it in time';
const MAY_BE_SENT = 'the SMTP server has not said yet whether it takes the mail: it may still be sent';

function ownerOf({ apiKeyId, apiKeyName }: Caller): Pick<NewSend, 'apiKeyId' | 'apiKeyName'> {
  return { apiKeyId, apiKeyName };
}

function rejectedOf(result: SendRow['result']): { rejected?: string[] } {
  return result && result.rejected.length > 0 ? { rejected: result.rejected } : {};
}
