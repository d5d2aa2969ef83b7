import { callOfReserved } from '../db/access/idempotency.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { placeOf } from '../mailbox/folders/by-role.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { recentKeyedParts } from '../outgoing/keyed-id.ts';
import type { SendRow } from '../outgoing/send-state.ts';
import { wasSentInDoubt } from '../outgoing/sent-mail.ts';
import { ownMessageId } from './compose.ts';
import type { Secrets } from '../security/secrets.ts';

/*
 * Sends that may have been made before are looked for in Sent first. A restore from a backup sets the store back: it no longer knows
 * the sends that were made since, and for 24 hours callers may repeat a call with its Idempotency-Key. And a draft whose send has an
 * unknown outcome, or was lost in an outage, stays and may be sent again: some providers have filed the copy.
 */

export interface LostSendDeps extends MailboxDeps {
  secrets: Secrets;
  /** when the store was last restored from a backup; absent, or undefined: never */
  restoredAt?: () => Promise<Date | undefined>;
}

const REPEATED_FOR_MS = 24 * 60 * 60_000;

/**
 * Looks in Sent for the message of a send that may have been made before.
 * @param ownId the Message-ID that this attempt would send
 * @returns the Message-ID of the copy; undefined: Sent has none, or the send cannot be a repeated one
 * @throws MailError when the mailbox cannot be searched: nothing is sent
 */
export async function findInSent(deps: LostSendDeps, send: SendRow, ownId: string): Promise<string | undefined> {
  const candidates = await earlierIds(deps, send, ownId);
  if (candidates.length === 0) return undefined;
  return withMailbox(deps, send.accountId, async (ctx) => {
    await openFolder(ctx.session, (await placeOf(ctx, 'SENT')).path);
    for (const messageId of candidates) {
      if ((await findByMessageId(ctx.session, messageId)).length > 0) return messageId;
    }
    return undefined;
  });
}

/** The Message-IDs that an earlier send of it would have. */
async function earlierIds(deps: LostSendDeps, { id, accountId, draftId }: SendRow, ownId: string): Promise<string[]> {
  const restoredAt = await deps.restoredAt?.();
  const now = new Date();
  const isRestored = restoredAt !== undefined && now.getTime() - restoredAt.getTime() <= REPEATED_FOR_MS;
  // a draft keeps its Message-ID
  if (draftId !== null) {
    return isRestored || (await wasSentInDoubt(deps.db, { id, accountId, draftId }, ownId)) ? [ownId] : [];
  }
  const call = isRestored ? await callOfReserved(deps.db, id) : undefined;
  const parts = call ? recentKeyedParts(deps.secrets, call, now) : [];
  return parts.map((part) => ownMessageId(deps, ownId.replace(/>$/, ''), part));
}
