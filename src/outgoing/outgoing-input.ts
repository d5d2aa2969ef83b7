import { text } from 'node:stream/consumers';
import { ApiError } from '../contract/errors.ts';
import type { SendInput } from '../contract/sending.ts';
import type { Queryable } from '../db/driver/client.ts';
import { findForwarded, findReplyTarget, type ForwardedOriginal } from '../db/queries/mail/original.ts';
import type { Storage } from '../storage/storage.ts';

/**
 * The message that a caller asked to send or to save: the API stores it, the worker composes it. Mail text never enters a
 * workflow. The file is written after the row that names it, which leaves no file without a row.
 */
export interface OutgoingInput {
  input: SendInput;
  /** the email that `reply_to_message_id` names; null when that has no Message-ID; undefined when not given */
  repliedTo?: { messageId: string; references: string[] } | null;
  /** the email that `forward_message_id` names */
  forwarded?: ForwardedOriginal;
}

/** Storage key of the input of a send or a draft. */
export const inputKeyOf = (accountId: string, id: string): string => `${accountId}/outgoing/${id}.json`;

/**
 * The input with the email that it answers or forwards.
 * @throws ApiError not_found when `reply_to_message_id` is the `email_…` id of an unknown email, or no stored email has the
 * `forward_message_id`
 */
export async function resolveInput(db: Queryable, accountId: string, input: SendInput): Promise<OutgoingInput> {
  if (input.forward_message_id !== undefined) {
    const forwarded = await findForwarded(db, accountId, input.forward_message_id);
    if (!forwarded) throw new ApiError('not_found', 'forward_message_id is not an email of this account');
    return { input, forwarded };
  }
  const reference = input.reply_to_message_id;
  if (reference === undefined) return { input };
  const target = await findReplyTarget(db, accountId, reference);
  if (!target) throw new ApiError('not_found', 'reply_to_message_id is not an email of this account');
  const { messageId, references } = target;
  return { input, repliedTo: messageId ? { messageId, references } : null };
}

/** Stores an input under its key. */
export async function storeInput(storage: Storage, key: string, outgoing: OutgoingInput): Promise<void> {
  await storage.put(key, Buffer.from(JSON.stringify(outgoing)));
}

/** Reads an input back. @throws StorageMissing */
export async function loadInput(storage: Storage, key: string): Promise<OutgoingInput> {
  return JSON.parse(await text(await storage.get(key))) as OutgoingInput;
}
