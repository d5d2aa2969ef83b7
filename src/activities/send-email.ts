import { ApiError } from '../contract/errors.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { loadSyncSettings } from '../mailbox/settings.ts';
import type { LoadedSend } from '../sending/compose.ts';
import { releaseReservation } from '../outgoing/draft-state.ts';
import {
  endFiling,
  fileSentCopy as fileCopy,
  type FilingProgress,
  finishSend,
  removeSentDraft as removeDraft,
} from '../sending/file-sent-copy.ts';
import { giveUp, loadSend, markOutcomeUnknown, type SendRow, type SendState } from '../outgoing/send-state.ts';
import { sendOnce, type SubmitDeps } from '../sending/submit.ts';
import { deleteUnneeded } from '../sending/unneeded-files.ts';
import { currentRun } from './current-run.ts';
import { withHeartbeat } from './heartbeat.ts';

export type SendDeps = SubmitDeps;
export type SendActivities = ReturnType<typeof createSendActivities>;

interface SendRef {
  accountId: string;
  sendId: string;
}

interface Waits {
  /** the workflow knows `disconnected`; earlier versions of it do not */
  waits?: boolean;
}

/** For a workflow that does not know that an account is `disconnected`, its login is refused. */
function known<T extends FilingProgress>({ waits = false }: Waits, progress: T): T {
  if (progress !== 'disconnected' || waits) return progress;
  throw new MailError('invalid_credentials', 'imap', 'the account is disconnected');
}

/** Activities of the `sendEmail` and `finishSend` workflows. */
export function createSendActivities(deps: SendDeps) {
  const { db, logger } = deps;

  /**
   * Submits the message to the SMTP server once, files its copy and removes the sent draft; each can be the last step before
   * a crash. `finished` is false when the copy or the draft is left to do; `forwardedId` is the email that it forwards.
   */
  async function submitEmail(ref: SendRef): Promise<{ finished: boolean; forwardedId?: string }> {
    const begunAt = performance.now();
    return withHeartbeat(async () => {
      const loaded = await load(ref);
      const { send, firstCopy } = await sendOnce(deps, loaded);
      const { workflowId } = currentRun();
      const finished = await finishSend(deps, { ...loaded, send }, { firstCopy, begunAt, workflowId });
      return { finished, ...(send.forwardedId ? { forwardedId: send.forwardedId } : {}) };
    });
  }

  /**
   * Ends a send without success: `failed` if nothing has left, `unknown` if the message may have left.
   * @returns the state of the send; null when it was deleted with its account
   */
  async function giveUpSend({ accountId, sendId }: SendRef): Promise<SendState | null> {
    await giveUp(db, sendId);
    await markOutcomeUnknown(db, sendId);
    const send = await loadSend(db, accountId, sendId);
    if (send?.state !== 'sent') await releaseReservation(db, sendId);
    if (send?.state === 'failed') await deleteUnneeded(deps, [send.inputKey, send.storageKey]);
    return send?.state ?? null;
  }

  /** Files the copy of a sent email. Waits for a provider that files it itself until `appendAnyway`. */
  async function fileSentCopy(input: SendRef & Waits & { appendAnyway: boolean }): Promise<FilingProgress> {
    const { appendAnyway } = input;
    return withHeartbeat(async () =>
      known(input, await fileCopy(deps, await load(input), { appendAnyway, search: true })),
    );
  }

  /** Ends the attempts to file the copy of a sent email, and deletes its provisional email. */
  async function giveUpFiling({ accountId, sendId }: SendRef): Promise<void> {
    const send = await loadSend(db, accountId, sendId);
    if (send && (await endFiling(deps, send)))
      logger.error({ accountId, sendId }, 'gave up filing the copy of a sent email');
  }

  /** Removes the draft that was sent from Drafts, unless the account is `disconnected`. */
  async function removeSentDraft(input: SendRef & Waits): Promise<'done' | 'disconnected'> {
    return withHeartbeat(async () => {
      const { send, settings } = await load(input);
      if (send.draftId !== null && settings.status === 'disconnected') return known(input, 'disconnected');
      await removeDraft(deps, send);
      return 'done';
    });
  }

  /** The email that a sent one forwards; null: none. */
  async function forwardedBy({ accountId, sendId }: SendRef): Promise<string | null> {
    return (await loadSend(db, accountId, sendId))?.forwardedId ?? null;
  }

  async function load(ref: SendRef): Promise<LoadedSend> {
    const [send, settings] = await Promise.all([loadRow(ref), loadSyncSettings(db, ref.accountId)]);
    if (!settings) throw new ApiError('not_found', 'no account has this id');
    return { send, settings };
  }

  async function loadRow({ accountId, sendId }: SendRef): Promise<SendRow> {
    const send = await loadSend(db, accountId, sendId);
    if (!send) throw new ApiError('not_found', 'this send no longer exists');
    return send;
  }

  return { submitEmail, giveUpSend, fileSentCopy, giveUpFiling, removeSentDraft, forwardedBy };
}
