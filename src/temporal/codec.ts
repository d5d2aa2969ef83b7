import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import {
  ApplicationFailure,
  defaultPayloadConverter,
  type Payload,
  type PayloadCodec,
  type SerializationContext,
} from '@temporalio/common';
import { UNSEALED } from '../workflows/names.ts';

/** Keys of 32 bytes: `current` encrypts, both decrypt. */
export interface CodecKeys {
  current: Buffer;
  previous?: Buffer;
}

/** The largest payload that may enter a history, in bytes before encryption: ids travel, contents stay in the store. */
export const MAX_PAYLOAD_BYTES = 64 * 1024;

/**
 * How `decode` treats a payload that was not sealed with our key, or was sealed for another workflow: another client of
 * Temporal wrote it, or Temporal itself, as the detail of an activity that was cancelled before it started. `refuse`: throws.
 * `mark`: what belongs to a workflow or an activity becomes UNSEALED, which interceptors refuse as an input or a result, one
 * by one (an error would fail the whole workflow task, which Temporal repeats forever); throws for all others. `show`:
 * passes it on, for display only.
 */
export type Unsealed = 'refuse' | 'mark' | 'show';

const ENCODING = 'binary/encrypted';
/** The metadata that names the workflow that a payload was sealed for; it is authenticated. */
const SEALED_FOR = 'sealed-for';
const IV_BYTES = 12;
const TAG_BYTES = 16;

interface NamedKey {
  id: Buffer;
  key: Buffer;
}

/**
 * Encrypts everything that enters a workflow's history: arguments, results, signals, summaries, heartbeats, failures.
 * AES-256-GCM under a key that HKDF derives from the settings' key. Search attributes and ids are not encrypted: Temporal
 * stores them in clear. Where the SDK names the workflow of a payload, it is sealed for that workflow: a reader of a
 * history cannot pass its payloads to another workflow.
 *
 * `encode` throws a non-retryable ApplicationFailure `PayloadTooLarge`; `decode` an Error for a payload that was
 * encrypted under an unknown key, or that `unsealed` refuses.
 */
export function createPayloadCodec(keys: CodecKeys, unsealed: Unsealed = 'refuse'): PayloadCodec {
  const current = derive(keys.current);
  const derived = keys.previous ? [current, derive(keys.previous)] : [current];
  const decode = (payload: Payload, context?: SerializationContext) => {
    const opened = decrypt(derived, payload, unsealed === 'show' ? undefined : context?.workflowId);
    if (opened !== undefined) return opened;
    if (unsealed === 'show' && !isEncrypted(payload)) return payload;
    if (unsealed === 'mark' && context !== undefined) return defaultPayloadConverter.toPayload(UNSEALED);
    throw new Error('a payload was not sealed by this installation, or was sealed for another workflow');
  };
  return {
    encode: async (payloads, context) => payloads.map((payload) => encrypt(current, payload, context?.workflowId)),
    decode: async (payloads, context) => payloads.map((payload) => decode(payload, context)),
  };
}

function derive(master: Buffer): NamedKey {
  const key = Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), 'temporal payloads', 32));
  return { id: createHash('sha256').update(key).digest().subarray(0, 6), key };
}

function encrypt({ id, key }: NamedKey, payload: Payload, workflowId?: string): Payload {
  const size = payload.data?.length ?? 0;
  if (size > MAX_PAYLOAD_BYTES) {
    throw ApplicationFailure.nonRetryable(
      `a payload of ${size} bytes is over the limit of ${MAX_PAYLOAD_BYTES}`,
      'PayloadTooLarge',
    );
  }
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  if (workflowId !== undefined) cipher.setAAD(Buffer.from(workflowId));
  const text = Buffer.concat([cipher.update(pack(payload)), cipher.final()]);
  return {
    metadata: {
      encoding: Buffer.from(ENCODING),
      'encryption-key-id': Buffer.from(id.toString('base64url')),
      ...(workflowId === undefined ? {} : { [SEALED_FOR]: Buffer.from(workflowId) }),
    },
    data: Buffer.concat([iv, cipher.getAuthTag(), text]),
  };
}

/**
 * Undefined: the payload is not encrypted, was changed, or was sealed for another workflow than `workflowId`. A payload
 * sealed for no workflow is valid for any: older ones, and those for which the SDK names none.
 */
function decrypt(keys: NamedKey[], payload: Payload, workflowId?: string): Payload | undefined {
  if (!isEncrypted(payload)) return undefined;
  const id = textOf(payload, 'encryption-key-id') ?? '';
  const key = keys.find((candidate) => candidate.id.toString('base64url') === id)?.key;
  if (!key)
    throw new Error('a payload was encrypted with another key: check ENCRYPTION_KEY and ENCRYPTION_KEY_PREVIOUS');
  const sealedFor = textOf(payload, SEALED_FOR);
  if (sealedFor !== undefined && workflowId !== undefined && sealedFor !== workflowId) return undefined;
  const bytes = Buffer.from(payload.data ?? []);
  if (bytes.length < IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  if (sealedFor !== undefined) decipher.setAAD(Buffer.from(sealedFor));
  decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  const text = decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES));
  try {
    return unpack(Buffer.concat([text, decipher.final()]));
  } catch {
    return undefined;
  }
}

function isEncrypted(payload: Payload): boolean {
  return textOf(payload, 'encoding') === ENCODING;
}

function textOf({ metadata }: Payload, name: string): string | undefined {
  const value = metadata?.[name];
  return value ? Buffer.from(value).toString() : undefined;
}

/** Layout: length of the metadata (4 bytes) | metadata as JSON, values in base64 | data. */
function pack(payload: Payload): Buffer {
  const entries = Object.entries(payload.metadata ?? {}).map(([name, value]) => [
    name,
    Buffer.from(value).toString('base64'),
  ]);
  const metadata = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(metadata.length);
  // The SDK may pass an empty one as a plain array.
  return Buffer.concat([length, metadata, Buffer.from(payload.data ?? [])]);
}

function unpack(bytes: Buffer): Payload {
  const end = 4 + bytes.readUInt32BE(0);
  const metadata = JSON.parse(bytes.subarray(4, end).toString()) as Record<string, string>;
  const values = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, 'base64')]);
  return { metadata: Object.fromEntries(values) as Record<string, Uint8Array>, data: bytes.subarray(end) };
}
