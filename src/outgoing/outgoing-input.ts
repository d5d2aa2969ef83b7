import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { ApiError } from '../contract/errors.ts';
import { SEND_BOUNDS, type SendInput } from '../contract/sending.ts';
import type { Queryable } from '../db/driver/client.ts';
import { findAttachments } from '../db/queries/mail/attachments.ts';
import { findForwarded, findReplyTarget, type ForwardedOriginal } from '../db/queries/mail/original.ts';
import type { Storage } from '../storage/storage.ts';
import { bytesOf, findUploads, type UploadRow } from './uploads.ts';

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
  /** for each attachment, the upload that it names, until the input is stored with its bytes; undefined when none names one */
  uploads?: (UploadRow | null)[];
}

/** A stored file that is attached. */
export interface StoredFile {
  storageKey: string;
  /** bytes */
  size: number;
}

/** Storage key of the input of a send or a draft. */
export const inputKeyOf = (accountId: string, id: string): string => `${accountId}/outgoing/${id}.json`;

/** Who sends or saves. */
export interface InputOwner {
  accountId: string;
  /** the key or person of the call, whose uploads it may attach */
  apiKeyId: string;
}

/**
 * The input with the email that it answers or forwards, and with the stored files and uploads that it names.
 * @throws ApiError not_found when `reply_to_message_id` is the `email_…` id of an unknown email, or no stored email has the
 * `forward_message_id`; invalid_parameters when an attachment names no file of the account, or no complete upload of the key
 */
export async function resolveInput(
  db: Queryable,
  { accountId, apiKeyId }: InputOwner,
  given: SendInput,
): Promise<OutgoingInput> {
  const { input, uploads } = await resolveUploads(db, apiKeyId, given);
  return {
    ...(await resolveFiles(db, accountId, input)),
    ...(await resolveOriginal(db, accountId, input)),
    ...(uploads ? { uploads } : {}),
  };
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

async function resolveUploads(
  db: Queryable,
  apiKeyId: string,
  input: SendInput,
): Promise<Pick<OutgoingInput, 'input' | 'uploads'>> {
  const given = input.attachments ?? [];
  const ids = given.flatMap(({ upload_id: id }) => id ?? []);
  if (ids.length === 0) return { input };
  const found = new Map((await findUploads(db, ids)).map((upload) => [upload.id, upload]));
  const uploads = given.map(({ upload_id: id }, index) => {
    if (id === undefined) return null;
    const upload = found.get(id);
    if (upload?.apiKeyId !== apiKeyId || !upload) throw noUpload(index);
    const { received, size } = upload;
    if (received === size) return upload;
    throw new ApiError(
      'invalid_parameters',
      `attachments.${index}.upload_id is not complete: ${received} of ${size} bytes are stored`,
    );
  });
  const attachments = given.map(({ upload_id: _, ...attachment }, index) => {
    const { filename, contentType } = uploads[index] ?? {};
    return { ...(filename ? { filename } : {}), ...(contentType ? { content_type: contentType } : {}), ...attachment };
  });
  return { input: { ...input, attachments }, uploads };
}

const noUpload = (index: number, cause?: unknown) =>
  new ApiError('invalid_parameters', `attachments.${index}.upload_id is not an upload of this key, or has expired`, {
    cause,
  });

/** A name that a header can contain. */
const nameOf = (name: string) => name.replace(/[\p{Cc}]+/gu, ' ').slice(0, SEND_BOUNDS.fileName);

/** A type that a header can contain: senders write any. */
const typeOf = (mime: string) =>
  /^(?!multipart\/)[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/.test(mime) ? mime : 'application/octet-stream';

/**
 * Stores an input under its key, with the bytes of its uploads as if the caller had sent them.
 * @throws ApiError invalid_parameters when an upload has been deleted since
 */
export async function storeInput(
  storage: Storage,
  key: string,
  { uploads, ...outgoing }: OutgoingInput,
): Promise<void> {
  const body = uploads
    ? Readable.from(withUploads(storage, outgoing, uploads), { objectMode: false })
    : Buffer.from(JSON.stringify(outgoing));
  await storage.put(key, body);
}

/** The JSON of an input, in pieces: uploads are as large as mail may be, and are not held in memory. */
async function* withUploads(
  storage: Storage,
  { input, ...rest }: OutgoingInput,
  uploads: (UploadRow | null)[],
): AsyncGenerator<string> {
  const place = randomBytes(16).toString('hex');
  const attachments = input.attachments?.map((file, index) => (uploads[index] ? { ...file, content: place } : file));
  const pieces = JSON.stringify({ ...rest, input: { ...input, attachments } }).split(place);
  const indexes = [...uploads.keys()].filter((index) => uploads[index]);
  for (const [number, piece] of pieces.entries()) {
    yield piece;
    const index = indexes[number] ?? -1;
    const upload = uploads[index];
    if (upload) yield* base64Of(storage, upload, index);
  }
}

async function* base64Of(storage: Storage, upload: UploadRow, index: number): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const bytes of bytesOf(storage, upload)) {
      const all = Buffer.concat([rest, bytes]);
      const whole = all.length - (all.length % 3);
      yield all.toString('base64', 0, whole);
      rest = all.subarray(whole);
    }
  } catch (error) {
    // `storage` is known here by its types alone
    throw error instanceof Error && error.name === 'StorageMissing' ? noUpload(index, error) : error;
  }
  yield rest.toString('base64');
}

/** Reads an input back. @throws StorageMissing */
export async function loadInput(storage: Storage, key: string): Promise<OutgoingInput> {
  return JSON.parse(await text(await storage.get(key))) as OutgoingInput;
}
