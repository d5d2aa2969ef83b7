import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { ApplicationFailure, type Payload, type PayloadCodec } from '@temporalio/common';

/** Keys of 32 bytes: `current` encrypts, both decrypt. */
export interface CodecKeys {
  current: Buffer;
  previous?: Buffer;
}

/** The largest payload that may enter a history, in bytes before encryption: ids travel, contents stay in the store. */
export const MAX_PAYLOAD_BYTES = 64 * 1024;

const ENCODING = 'binary/encrypted';
const IV_BYTES = 12;
const TAG_BYTES = 16;

interface NamedKey {
  id: Buffer;
  key: Buffer;
}

/**
 * Encrypts whatever enters a workflow's history: arguments, results, signals, summaries, heartbeats, failures.
 * AES-256-GCM under a key that HKDF derives from the settings' key. Search attributes and ids are not payloads of this
 * kind: Temporal stores them in clear.
 *
 * `encode` throws a non-retryable ApplicationFailure `PayloadTooLarge`; `decode` an Error when a payload was encrypted
 * under an unknown key, or was changed. Payloads that are not encrypted pass `decode` unchanged.
 */
export function createPayloadCodec(keys: CodecKeys): PayloadCodec {
  const current = derive(keys.current);
  const derived = keys.previous ? [current, derive(keys.previous)] : [current];
  return {
    encode: async (payloads) => payloads.map((payload) => encrypt(current, payload)),
    decode: async (payloads) => payloads.map((payload) => decrypt(derived, payload)),
  };
}

function derive(master: Buffer): NamedKey {
  const key = Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), 'temporal payloads', 32));
  return { id: createHash('sha256').update(key).digest().subarray(0, 6), key };
}

function encrypt({ id, key }: NamedKey, payload: Payload): Payload {
  const size = payload.data?.length ?? 0;
  if (size > MAX_PAYLOAD_BYTES) {
    throw ApplicationFailure.nonRetryable(
      `a payload of ${size} bytes is over the limit of ${MAX_PAYLOAD_BYTES}`,
      'PayloadTooLarge',
    );
  }
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  const text = Buffer.concat([cipher.update(pack(payload)), cipher.final()]);
  return {
    metadata: { encoding: Buffer.from(ENCODING), 'encryption-key-id': Buffer.from(id.toString('base64url')) },
    data: Buffer.concat([iv, cipher.getAuthTag(), text]),
  };
}

function decrypt(keys: NamedKey[], payload: Payload): Payload {
  const { metadata, data } = payload;
  if (!metadata?.['encoding'] || Buffer.from(metadata['encoding']).toString() !== ENCODING) return payload;
  const id = Buffer.from(metadata['encryption-key-id'] ?? []).toString();
  const key = keys.find((candidate) => candidate.id.toString('base64url') === id)?.key;
  if (!key)
    throw new Error('a payload was encrypted with another key: check ENCRYPTION_KEY and ENCRYPTION_KEY_PREVIOUS');
  const bytes = Buffer.from(data ?? []);
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
  return unpack(Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]));
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
  // An empty one may come as a plain array from the SDK.
  return Buffer.concat([length, metadata, Buffer.from(payload.data ?? [])]);
}

function unpack(bytes: Buffer): Payload {
  const end = 4 + bytes.readUInt32BE(0);
  const metadata = JSON.parse(bytes.subarray(4, end).toString()) as Record<string, string>;
  const values = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, 'base64')]);
  return { metadata: Object.fromEntries(values) as Record<string, Uint8Array>, data: bytes.subarray(end) };
}
