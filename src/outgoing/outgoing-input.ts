import { text } from 'node:stream/consumers';
import { ApiError } from '../contract/errors.ts';
import { SEND_BOUNDS, type SendInput } from '../contract/sending.ts';
import type { Queryable } from '../db/driver/client.ts';
import { findAttachments } from '../db/queries/mail/attachments.ts';
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
  /** for each attachment, the stored file that it names; undefined when none names one */
  files?: (StoredFile | null)[];
}

/** A stored file that is attached. */
export interface StoredFile {
  storageKey: string;
  /** bytes */
  size: number;
}

/** Storage key of the input of a send or a draft. */
export const inputKeyOf = (accountId: string, id: string): string => `${accountId}/outgoing/${id}.json`;

/**
 * The input with the email that it answers or forwards, and with the stored files that it names.
 * @throws ApiError not_found when `reply_to_message_id` is the `email_…` id of an unknown email, or no stored email has the
 * `forward_message_id`; invalid_parameters when an attachment names no file of the account
 */
export async function resolveInput(db: Queryable, accountId: string, input: SendInput): Promise<OutgoingInput> {
  return { ...(await resolveFiles(db, accountId, input)), ...(await resolveOriginal(db, accountId, input)) };
}

async function resolveOriginal(
  db: Queryable,
  accountId: string,
  { reply_to_message_id: answered, forward_message_id: forward }: SendInput,
): Promise<Pick<OutgoingInput, 'repliedTo' | 'forwarded'>> {
  if (forward !== undefined) {
    const forwarded = await findForwarded(db, accountId, forward);
    if (!forwarded) throw new ApiError('not_found', 'forward_message_id is not an email of this account');
    return { forwarded };
  }
  if (answered === undefined) return {};
  const target = await findReplyTarget(db, accountId, answered);
  if (!target) throw new ApiError('not_found', 'reply_to_message_id is not an email of this account');
  const { messageId, references } = target;
  return { repliedTo: messageId ? { messageId, references } : null };
}

async function resolveFiles(
  db: Queryable,
  accountId: string,
  input: SendInput,
): Promise<Pick<OutgoingInput, 'input' | 'files'>> {
  const given = input.attachments ?? [];
  const ids = given.flatMap(({ attachment_id: id }) => id ?? []);
  if (ids.length === 0) return { input };
  const stored = new Map((await findAttachments(db, accountId, ids)).map((file) => [file.id, file]));
  const files = given.map(({ email_id: emailId, attachment_id: id }, index) => {
    if (id === undefined) return null;
    const file = stored.get(id);
    if (file?.emailId === emailId && file) return file;
    throw new ApiError('invalid_parameters', `attachments.${index}.attachment_id does not name a file of this email`);
  });
  const attachments = given.map((attachment, index) => {
    const file = files[index];
    return file ? { filename: nameOf(file.name), content_type: typeOf(file.mime), ...attachment } : attachment;
  });
  return {
    input: { ...input, attachments },
    files: files.map((file) => file && { storageKey: file.storageKey, size: file.size }),
  };
}

/** A name that a header can contain. */
const nameOf = (name: string) => name.replace(/[\p{Cc}]+/gu, ' ').slice(0, SEND_BOUNDS.fileName);

/** A type that a header can contain: senders write any. */
const typeOf = (mime: string) =>
  /^(?!multipart\/)[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/.test(mime) ? mime : 'application/octet-stream';

/** Stores an input under its key. */
export async function storeInput(storage: Storage, key: string, outgoing: OutgoingInput): Promise<void> {
  await storage.put(key, Buffer.from(JSON.stringify(outgoing)));
}

/** Reads an input back. @throws StorageMissing */
export async function loadInput(storage: Storage, key: string): Promise<OutgoingInput> {
  return JSON.parse(await text(await storage.get(key))) as OutgoingInput;
}
