import { ApiError } from '../contract/errors.ts';
import { MailError } from '../mail-error.ts';
import { releaseReservation } from '../sending/draft-state.ts';
import { fileCopyOf, createProvisionalEmail } from '../sending/file-sent-copy.ts';
import { loadSend, moveSend, type SendRow, type SendState } from '../sending/send-state.ts';
import { sendOnce, type SubmitDeps } from '../sending/submit.ts';
import { withHeartbeat } from './heartbeat.ts';
import { removeDraftMail } from './remove-draft.ts';
import { withMailbox } from '../mailbox/with-mailbox.ts';

export type SendDeps = SubmitDeps;
export type SendActivities = ReturnType<typeof createSendActivities>;

interface SendRef {
  accountId: string;
  sendId: string;
}

/** So long the caller waits for the copy of a mail that has been sent. */
const PATIENCE_MS = 3_000;

/** Activities of the `sendEmail` and `finishSend` workflows. */
export function createSendActivities(deps: SendDeps) {
  const { db } = deps;

  /**
   * Hands the mail to the SMTP server, once, files its copy and removes the draft that it was; each may be the last
   * before a crash. `finished` is false when something of the latter is left to be done.
   */
  async function submitEmail({ accountId, sendId }: SendRef): Promise<{ finished: boolean }> {
    return withHeartbeat(async () => {
      const send = await sendOf(accountId, sendId);
      const first = await sendOnce(deps, send);
      return { finished: await finishNow(send, first) };
    });
  }

  /**
   * What is left once the mail has been taken, as long as it goes quickly. What does not gets an Email that stands in
   * for the copy (CONTRACT "Emails", send), whose presence answers the caller.
   */
  async function finishNow(send: SendRow, first: boolean): Promise<boolean> {
    const { id, accountId } = send;
    const makeStandIn = () => createProvisionalEmail(deps, accountId, id).catch(() => {});
    const timer = setTimeout(() => void makeStandIn(), PATIENCE_MS);
    try {
      if ((await fileCopyOf(deps, send, { appendAnyway: false, search: !first })) === 'done') {
        await removeDraftOf(send);
        return true;
      }
    } catch (error) {
      const code = error instanceof MailError || error instanceof ApiError ? error.code : 'unexpected_error';
      deps.logger.warn({ accountId, sendId: id, code }, 'the copy of a sent mail is filed later');
    } finally {
      clearTimeout(timer);
    }
    await makeStandIn();
    return false;
  }

  /**
   * The run ends without success: what had not left is not sent any more, what may have left stays unknown. Answers how
   * the send stands; null when it is gone with its account.
   */
  async function giveUpSend({ accountId, sendId }: SendRef): Promise<SendState | null> {
    await moveSend(db, sendId, ['queued'], 'failed');
    await moveSend(db, sendId, ['submitting'], 'unknown');
    const send = await loadSend(db, accountId, sendId);
    if (send?.state !== 'sent') await releaseReservation(db, sendId);
    if (send?.state === 'failed') {
      await deps.storage.delete([send.inputKey, send.storageKey].flatMap((key) => key ?? []));
    }
    return send?.state ?? null;
  }

  /** Files the copy of a mail that has been sent; waits for a provider that does so itself until `insist`. */
  async function fileSentCopy({
    accountId,
    sendId,
    insist,
  }: SendRef & { insist: boolean }): Promise<'done' | 'waiting'> {
    return withHeartbeat(async () =>
      fileCopyOf(deps, await sendOf(accountId, sendId), { appendAnyway: insist, search: true }),
    );
  }

  /** Removes the draft that was sent from Drafts; its `drf_…` id is dead already. */
  async function removeSentDraft({ accountId, sendId }: SendRef): Promise<'done'> {
    await withHeartbeat(async () => removeDraftOf(await sendOf(accountId, sendId)));
    return 'done';
  }

  async function removeDraftOf({ accountId, draftId }: SendRow): Promise<void> {
    if (draftId) await withMailbox(deps, accountId, (ctx) => removeDraftMail(ctx, draftId));
  }

  async function sendOf(accountId: string, sendId: string): Promise<SendRow> {
    const send = await loadSend(db, accountId, sendId);
    if (!send) throw new ApiError('not_found', 'there is no such send any more');
    return send;
  }

  return { submitEmail, giveUpSend, fileSentCopy, removeSentDraft };
}
