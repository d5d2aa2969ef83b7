import type { Readable } from 'node:stream';

/** Stores raw mail and attachments. Keys are relative paths of safe characters: `<acc>/raw/<email>.eml`. */
export interface Storage {
  /** Writes or replaces an object as a whole, never half of it, durably; returns the number of bytes written. */
  put(key: string, body: Buffer | Readable): Promise<number>;
  /**
   * The object's bytes, or those from `start` to `end` (both included; `end` may be past the last one).
   * @throws StorageMissing when there is no such object (before anything is read)
   */
  get(key: string, range?: ByteRange): Promise<Readable>;
  /** Bytes of the object; undefined when there is none. */
  size(key: string): Promise<number | undefined>;
  /** Removes objects; missing ones are no error. */
  delete(keys: readonly string[]): Promise<void>;
  /** Removes every object whose key begins with `prefix`, which must end in `/`. */
  deletePrefix(prefix: string): Promise<void>;
  /**
   * Keys that begin with `prefix`, which must end in `/`, at most 1,000 at a time in an order of the storage's own; those
   * after the key `after`. Also names what an interrupted `put` left behind.
   */
  list(prefix: string, after?: string): Promise<StoredObject[]>;
}

export interface StoredObject {
  key: string;
  modifiedAt: Date;
}

export interface ByteRange {
  start: number;
  end: number;
}
