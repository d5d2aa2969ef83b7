import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto';

/** The location of a sealed value. It is authenticated with the value: a value copied to another row does not open. */
export interface SealedAt {
  table: string;
  column: string;
  id: string;
}

/**
 * Seals (encrypts and authenticates) values that must not be readable in the database: mail passwords, webhook secrets
 * and headers.
 */
export interface Secrets {
  /** Seals text for one location. Two calls never return the same bytes. */
  seal(where: SealedAt, plaintext: string): Buffer;
  /** A keyed digest: equal for equal texts under one key, and not computable without the key. */
  digest(text: string): Buffer;
  /** An id of the current key that reveals nothing of it. */
  readonly keyId: string;
  /**
   * The key that a value is sealed with; the first bytes of the value suffice. Undefined: none of the configured keys.
   */
  keyOf(sealed: Buffer): 'current' | 'previous' | undefined;
  /** Opens a value that `seal` made for the same location. Throws SealError. */
  open(where: SealedAt, sealed: Buffer): string;
}

/** A sealed value that cannot be opened; the message holds neither the value nor a key. */
export class SealError extends Error {
  readonly reason: 'unknown_key' | 'damaged';
  constructor(reason: 'unknown_key' | 'damaged') {
    super(
      reason === 'unknown_key'
        ? 'a stored secret was sealed with another key: check ENCRYPTION_KEY and ENCRYPTION_KEY_PREVIOUS'
        : 'a stored secret is damaged or belongs to another row',
    );
    this.name = 'SealError';
    this.reason = reason;
  }
}

/*
 * Layout: version (1) | key id (8) | wrapped data key: iv (12), key (32), tag (16) | value: iv (12), tag (16), text.
 * Each value has its own data key, wrapped by the key of the settings: that key encrypts only random keys. Everything is
 * AES-256-GCM; version, key id and location are the additional data of both.
 */
const VERSION = 1;
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_BYTES = 8;
const HEAD_BYTES = 1 + KEY_ID_BYTES;
const WRAPPED_BYTES = IV_BYTES + KEY_BYTES + TAG_BYTES;
const MIN_BYTES = HEAD_BYTES + WRAPPED_BYTES + IV_BYTES + TAG_BYTES;

/**
 * Secrets under the keys of the settings (32 bytes each; throws RangeError otherwise). `current` seals; `previous` only
 * opens: a key changes without downtime.
 */
export function createSecrets(keys: { current: Buffer; previous?: Buffer }): Secrets {
  const current = named(keys.current);
  const all = keys.previous ? [current, named(keys.previous)] : [current];

  return {
    seal(where, plaintext) {
      const head = Buffer.concat([Buffer.of(VERSION), current.id]);
      const aad = additionalData(head, where);
      const dataKey = randomBytes(KEY_BYTES);
      const wrapped = encrypt(current.key, aad, dataKey);
      const value = encrypt(dataKey, aad, Buffer.from(plaintext, 'utf8'));
      return Buffer.concat([head, wrapped.iv, wrapped.text, wrapped.tag, value.iv, value.tag, value.text]);
    },
    digest: (text) => createHmac('sha256', current.key).update(`digest ${text}`).digest(),
    keyId: current.id.toString('hex'),
    keyOf(sealed) {
      const keyId = sealed.subarray(1, HEAD_BYTES);
      if (current.id.equals(keyId)) return 'current';
      return all.some(({ id }) => id.equals(keyId)) ? 'previous' : undefined;
    },
    open(where, sealed) {
      if (sealed.length < MIN_BYTES || sealed[0] !== VERSION) throw new SealError('damaged');
      const head = sealed.subarray(0, HEAD_BYTES);
      const keyId = head.subarray(1);
      const key = all.find(({ id }) => id.equals(keyId));
      if (!key) throw new SealError('unknown_key');
      const aad = additionalData(head, where);
      const wrapped = sealed.subarray(HEAD_BYTES, HEAD_BYTES + WRAPPED_BYTES);
      const value = sealed.subarray(HEAD_BYTES + WRAPPED_BYTES);
      const dataKey = decrypt(key.key, aad, {
        iv: wrapped.subarray(0, IV_BYTES),
        text: wrapped.subarray(IV_BYTES, IV_BYTES + KEY_BYTES),
        tag: wrapped.subarray(IV_BYTES + KEY_BYTES),
      });
      const plaintext = decrypt(dataKey, aad, {
        iv: value.subarray(0, IV_BYTES),
        tag: value.subarray(IV_BYTES, IV_BYTES + TAG_BYTES),
        text: value.subarray(IV_BYTES + TAG_BYTES),
      });
      return plaintext.toString('utf8');
    },
  };
}

interface Encrypted {
  iv: Buffer;
  text: Buffer;
  tag: Buffer;
}

function named(key: Buffer): { id: Buffer; key: Buffer } {
  if (key.length !== KEY_BYTES) throw new RangeError('an encryption key has 32 bytes');
  return { id: createHash('sha256').update(key).digest().subarray(0, KEY_ID_BYTES), key };
}

/** Every part follows its length: no two locations have the same encoding. */
function additionalData(head: Buffer, where: SealedAt): Buffer {
  const parts = [head, ...[where.table, where.column, where.id].map((part) => Buffer.from(part, 'utf8'))];
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return [length, part];
    }),
  );
}

function encrypt(key: Buffer, aad: Buffer, plaintext: Buffer): Encrypted {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES }).setAAD(aad);
  const text = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return { iv, text, tag: cipher.getAuthTag() };
}

function decrypt(key: Buffer, aad: Buffer, sealed: Encrypted): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.iv, { authTagLength: TAG_BYTES });
  decipher.setAAD(aad).setAuthTag(sealed.tag);
  try {
    return Buffer.concat([decipher.update(sealed.text), decipher.final()]);
  } catch {
    throw new SealError('damaged');
  }
}
