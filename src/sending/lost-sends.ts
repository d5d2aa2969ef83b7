import { callOfReserved } from '../db/access/idempotency.ts';
import { findByMessageId, findByOriginalId } from '../imap/search.ts';
import type { ImapSession } from '../imap/session.ts';
import { openFolder } from '../imap/select.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { placeOf } from '../mailbox/folders/by-role.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { recentKeyedParts } from '../outgoing/keyed-id.ts';
import type { SendRow } from '../outgoing/send-state.ts';
import { wasSentInDoubt } from '../outgoing/sent-mail.ts';
import { type LoadedSend, ownMessageId } from './compose.ts';
import type { Secrets } from '../security/secrets.ts';

/*
 * Sends that may have been made before are looked for in Sent first. A restore from a backup sets the store back: it no longer knows
 * the sends that were made since, and for 24 hours callers may repeat a call with its Idempotency-Key. And a draft whose send has an
 * unknown outcome, or was lost in an outage, stays and may be sent again: some providers have filed the copy. That copy also shows
 * that a send was made whose response was lost.
 */

export interface LostSendDeps extends MailboxDeps {
  secrets: Secrets;
  /** when the store was last restored from a backup; absent, or undefined: never */
  restoredAt?: () => Promise<Date | undefined>;
}

/** A copy in Sent. */
export interface FoundCopy {
  /** of the send */
  messageId: string;
  /** see sends.server_message_id */
  serverMessageId: string | null;
}

const REPEATED_FOR_MS = 24 * 60 * 60_000;

/**
 * Looks in Sent for the message of a send that may have been made before.
 * @param ownId the Message-ID that this attempt would send
 * @returns the Message-IDs of the copy; undefined: Sent has none, or the send cannot be a repeated one
 * @throws MailError when the mailbox cannot be searched: nothing is sent
 */
export async function findInSent(
  deps: LostSendDeps,
  { send, settings }: LoadedSend,
  ownId: string,
): Promise<FoundCopy | undefined> {
  const candidates = await earlierIds(deps, send, ownId);
  return findCopy(deps, { send, settings }, candidates);
}

/**
 * Looks in Sent for the message of a send whose outcome was lost.
 * @returns the Message-IDs of the copy; undefined: Sent has none, or the mailbox cannot be searched
 */
export async function findCopyOfLost(deps: MailboxDeps, loaded: LoadedSend): Promise<FoundCopy | undefined> {
  const { messageId } = loaded.send;
  try {
    return await findCopy(deps, loaded, messageId === null ? [] : [messageId]);
  } catch (error) {
    if (error instanceof MailError) return undefined;
    throw error;
  }
}

/** Looks in Sent for a message with one of these Message-IDs. @throws MailError */
async function findCopy(
  deps: MailboxDeps,
  { send, settings }: LoadedSend,
  messageIds: string[],
): Promise<FoundCopy | undefined> {
  if (messageIds.length === 0) return undefined;
  return withMailbox(deps, send.accountId, async (ctx) => {
    await openFolder(ctx.session, (await placeOf(ctx, 'SENT')).path);
    for (const messageId of messageIds) {
      const idOfCopy = await idOfCopyIn(ctx.session, settings.smtp.host, messageId);
      if (idOfCopy) return { messageId, serverMessageId: idOfCopy === messageId ? null : idOfCopy };
    }
    return undefined;
  });
}

/** Domains of Microsoft's clouds, whose SMTP servers replace the Message-ID. */
const REPLACES_IDS = /(^|\.)(office365|outlook)\.(com|us|cn)$/i;

/** The Message-ID that the message has in the selected folder; undefined: it is not there. */
async function idOfCopyIn(session: ImapSession, smtpHost: string, messageId: string): Promise<string | undefined> {
  if (REPLACES_IDS.test(smtpHost)) return findByOriginalId(session, messageId);
  return (await findByMessageId(session, messageId)).length > 0 ? messageId : undefined;
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
