import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { StorageMissing } from './keys.ts';
import type { ByteRange, Storage } from './types.ts';

/*
 * Layout: magic (8) | salt (16) | chunks. A chunk is the ciphertext of 64 KiB, of less in the last one, and its tag (16).
 * Each object has its own key, derived from its owner's data key, the salt and the object's storage key: an object
 * under another storage key does not open. AES-256-GCM; the nonce is the number of the chunk and whether it is the last:
 * swapped, missing or truncated chunks do not open either.
 */
const MAGIC = Buffer.from('\x93mailenc\n', 'latin1').subarray(0, 8);
const SALT_BYTES = 16;
const HEAD_BYTES = MAGIC.length + SALT_BYTES;
const TAG_BYTES = 16;
const CHUNK = 64 * 1024;
const SEALED_CHUNK = CHUNK + TAG_BYTES;

/** The data keys of the owners of objects, 32 bytes each. An owner is an account, or an upload. */
export interface DataKeys {
  /** The key of an owner, created if it has none; undefined when the owner was or is being removed. */
  take(ownerId: string): Promise<Buffer | undefined>;
  /** The key of an owner, if it has one. */
  find(ownerId: string): Promise<Buffer | undefined>;
}

export interface EncryptionOptions {
  keys: DataKeys;
  /** false: encrypted objects are read, new ones are stored unencrypted */
  encrypts: boolean;
}

/** An object is damaged, or has the key of another. */
export class ObjectDamaged extends Error {
  override readonly name = 'ObjectDamaged';
}

/** Whether a stored object can never be read: it is missing or damaged. */
export function isLost(error: unknown): boolean {
  return error instanceof StorageMissing || error instanceof ObjectDamaged;
}

/**
 * Wraps a storage: objects are encrypted under the data key of their owner, whom their storage key names, and lost
 * with it. Unencrypted objects are read unchanged. Sizes and ranges are those of the plaintext.
 */
export function encryptStorage(inner: Storage, { keys, encrypts }: EncryptionOptions): Storage {
  return {
    ...inner,
    async put(key, body) {
      const { head, rest } = await peek(Buffer.isBuffer(body) ? [body] : body, MAGIC.length);
      // a body that a sender made look encrypted is encrypted in any case
      if (!encrypts && !isEncrypted(head)) {
        return inner.put(key, Buffer.isBuffer(body) ? body : toStream(joined(head, rest)));
      }
      const dataKey = await keys.take(ownerOf(key));
      if (dataKey === undefined) throw new Error('the account or upload was removed: nothing is stored for it');
      const salt = randomBytes(SALT_BYTES);
      const count = { bytes: 0 };
      const sealed = encrypt(derive(dataKey, salt, key), counted(joined(head, rest), count));
      const whole = toStream(joined(Buffer.concat([MAGIC, salt]), sealed));
      await inner.put(key, Buffer.isBuffer(body) ? Buffer.concat(await buffersIn(whole)) : whole);
      return count.bytes;
    },
    get: (key, range) => (range === undefined ? readAll(inner, keys, key) : readRange(inner, keys, key, range)),
    async size(key) {
      const stored = await inner.size(key);
      if (stored === undefined || stored < HEAD_BYTES + TAG_BYTES) return stored;
      return isEncrypted(await readHead(inner, key)) ? plaintextOf(stored).bytes : stored;
    },
  };
}

async function readAll(inner: Storage, keys: DataKeys, key: string): Promise<Readable> {
  const source = await inner.get(key);
  const { head, rest } = await peek(source, HEAD_BYTES);
  if (!isEncrypted(head)) return toStream(joined(head, rest), source);
  const own = await openerOf(keys, key, head).catch((error: unknown) => {
    source.destroy();
    throw error;
  });
  return toStream(decrypt(own, rest, { first: 0, last: undefined }), source);
}

async function readRange(inner: Storage, keys: DataKeys, key: string, range: ByteRange): Promise<Readable> {
  const head = await readHead(inner, key);
  if (!isEncrypted(head)) return inner.get(key, range);
  const own = await openerOf(keys, key, head);
  const { chunks, bytes } = plaintextOf((await inner.size(key)) ?? 0);
  const end = Math.min(range.end, bytes - 1);
  if (range.start > end) return Readable.from([]);
  const [first, final] = [Math.floor(range.start / CHUNK), Math.floor(end / CHUNK)];
  const source = await inner.get(key, {
    start: HEAD_BYTES + first * SEALED_CHUNK,
    end: HEAD_BYTES + (final + 1) * SEALED_CHUNK - 1,
  });
  const text = decrypt(own, buffersOf(source), { first, last: chunks - 1 });
  return toStream(cut(text, range.start - first * CHUNK, end - range.start + 1), source);
}

async function readHead(inner: Storage, key: string): Promise<Buffer> {
  return Buffer.concat(await buffersIn(await inner.get(key, { start: 0, end: HEAD_BYTES - 1 })));
}

/**
 * The key of an encrypted object.
 * @throws StorageMissing: its owner's key was deleted, and the object is lost with it
 */
async function openerOf(keys: DataKeys, key: string, head: Buffer): Promise<Buffer> {
  const dataKey = await keys.find(ownerOf(key));
  if (dataKey === undefined) throw new StorageMissing(key);
  return derive(dataKey, head.subarray(MAGIC.length), key);
}

/** `<account>/…`, or `uploads/<upload>/…` */
function ownerOf(key: string): string {
  const [first = '', second = ''] = key.split('/');
  return first === 'uploads' ? second : first;
}

function derive(dataKey: Buffer, salt: Buffer, storageKey: string): Buffer {
  return Buffer.from(hkdfSync('sha256', dataKey, salt, `stored object ${storageKey}`, 32));
}

const isEncrypted = (head: Buffer) => head.subarray(0, MAGIC.length).equals(MAGIC);

function plaintextOf(stored: number): { chunks: number; bytes: number } {
  const sealed = Math.max(stored - HEAD_BYTES, TAG_BYTES);
  const chunks = Math.ceil(sealed / SEALED_CHUNK);
  return { chunks, bytes: sealed - chunks * TAG_BYTES };
}

function nonceOf(index: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(isLast ? 1 : 0, 0);
  nonce.writeBigUInt64BE(BigInt(index), 4);
  return nonce;
}

async function* encrypt(key: Buffer, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let index = 0;
  for await (const { chunk, isLast } of chunksOf(source, CHUNK)) {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(index++, isLast), { authTagLength: TAG_BYTES });
    yield Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()]);
  }
}

/** `first`: the number of the first chunk of `source`; `last`: that of the object's last; undefined: the source ends with it. */
async function* decrypt(
  key: Buffer,
  source: AsyncIterable<Buffer>,
  { first, last }: { first: number; last: number | undefined },
): AsyncGenerator<Buffer> {
  let index = first;
  for await (const { chunk, isLast } of chunksOf(source, SEALED_CHUNK)) {
    if (chunk.length < TAG_BYTES) throw new ObjectDamaged('a stored object is truncated');
    const nonce = nonceOf(index, last === undefined ? isLast : index === last);
    index += 1;
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAuthTag(chunk.subarray(chunk.length - TAG_BYTES));
    const text = decipher.update(chunk.subarray(0, chunk.length - TAG_BYTES));
    try {
      yield Buffer.concat([text, decipher.final()]);
    } catch (cause) {
      throw new ObjectDamaged('a stored object is damaged, or belongs to another key', { cause });
    }
  }
}

/** The bytes in chunks of `size`; the last one, which may be shorter or empty, is marked. */
async function* chunksOf(
  source: AsyncIterable<Buffer>,
  size: number,
): AsyncGenerator<{ chunk: Buffer; isLast: boolean }> {
  let parts: Buffer[] = [];
  let length = 0;
  for await (const part of source) {
    parts.push(part);
    length += part.length;
    if (length <= size) continue;
    let bytes = Buffer.concat(parts);
    for (; bytes.length > size; bytes = bytes.subarray(size)) yield { chunk: bytes.subarray(0, size), isLast: false };
    parts = [bytes];
    length = bytes.length;
  }
  yield { chunk: Buffer.concat(parts), isLast: true };
}

async function* cut(source: AsyncIterable<Buffer>, skip: number, length: number): AsyncGenerator<Buffer> {
  let [toSkip, left] = [skip, length];
  for await (const part of source) {
    const wanted = part.subarray(toSkip, toSkip + left);
    toSkip = Math.max(0, toSkip - part.length);
    left -= wanted.length;
    yield wanted;
    if (left === 0) return;
  }
}

/** At least the first `bytes` of a source, or all of it, and what follows. */
async function peek(
  source: Iterable<Buffer> | Readable,
  bytes: number,
): Promise<{ head: Buffer; rest: AsyncIterable<Buffer> }> {
  const iterator = buffersOf(source);
  let all = Buffer.alloc(0);
  while (all.length < bytes) {
    const { value, done } = await iterator.next();
    if (done) break;
    all = Buffer.concat([all, value]);
  }
  return { head: all.subarray(0, bytes), rest: joined(all.subarray(bytes), iterator) };
}

async function* buffersOf(source: Iterable<Buffer> | Readable): AsyncGenerator<Buffer, undefined> {
  for await (const part of source) yield Buffer.from(part as Uint8Array);
  return undefined;
}

async function* joined(head: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (head.length > 0) yield head;
  yield* rest;
}

async function* counted(source: AsyncIterable<Buffer>, count: { bytes: number }): AsyncGenerator<Buffer> {
  for await (const part of source) {
    count.bytes += part.length;
    yield part;
  }
}

async function buffersIn(source: Readable): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const part of buffersOf(source)) all.push(part);
  return all;
}

/**
 * A stream of bytes that come from `source`, which is closed with it: generators that have not begun, or that wait for
 * bytes, do not close what they read.
 */
function toStream(bytes: AsyncIterable<Buffer>, source?: Readable): Readable {
  const stream = Readable.from(bytes, { objectMode: false });
  const destroy = stream._destroy.bind(stream);
  stream._destroy = (error, done) => {
    source?.destroy();
    destroy(error, done);
  };
  return stream;
}
