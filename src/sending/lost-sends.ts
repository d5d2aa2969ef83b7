import { callOfReserved } from '../db/access/idempotency.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { placeOf } from '../mailbox/folders/by-role.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { recentKeyedParts } from '../outgoing/keyed-id.ts';
import type { SendRow } from '../outgoing/send-state.ts';
import { ownMessageId } from './compose.ts';
import type { Secrets } from '../security/secrets.ts';

/*
 * A restore from a backup sets the store back: it no longer knows the sends that were made since. For 24 hours after it, in which
 * callers may repeat a call with its Idempotency-Key, such a send is looked for in Sent before it is made.
 */

export interface LostSendDeps extends MailboxDeps {
  secrets: Secrets;
  /** when the store was last restored from a backup; absent, or undefined: never */
  restoredAt?: () => Promise<Date | undefined>;
}

const REPEATED_FOR_MS = 24 * 60 * 60_000;

/**
 * Looks in Sent for the message of a call that was made before a restore.
 * @param ownId the Message-ID that this attempt would send
 * @returns the Message-ID of the copy; undefined: Sent has none, or the call cannot be a repeated one
 * @throws MailError when the mailbox cannot be searched: nothing is sent
 */
export async function sentBeforeRestore(
  deps: LostSendDeps,
  { id, accountId, draftId }: SendRow,
  ownId: string,
): Promise<string | undefined> {
  const restoredAt = await deps.restoredAt?.();
  const now = new Date();
  if (restoredAt === undefined || now.getTime() - restoredAt.getTime() > REPEATED_FOR_MS) return undefined;
  const call = draftId === null ? await callOfReserved(deps.db, id) : undefined;
  // a draft keeps its Message-ID
  const parts = call ? recentKeyedParts(deps.secrets, call, now) : [];
  const domain = ownId.replace(/>$/, '');
  const candidates = draftId === null ? parts.map((part) => ownMessageId(deps, domain, part)) : [ownId];
  if (candidates.length === 0) return undefined;
  return withMailbox(deps, accountId, async (ctx) => {
    await openFolder(ctx.session, (await placeOf(ctx, 'SENT')).path);
    for (const messageId of candidates) {
      if ((await findByMessageId(ctx.session, messageId)).length > 0) return messageId;
    }
    return undefined;
  });
}
