import type { Readable } from 'node:stream';

/** Stores raw mail and attachments. Keys are relative paths of safe characters: `<acc>/raw/<email>.eml`. */
export interface Storage {
  /** Writes or replaces an object as a whole, never half of it, durably; returns the number of bytes written. */
  put(key: string, body: Buffer | Readable): Promise<number>;
  /**
   * The object's bytes, or those from `start` to `end` (both included; `end` may be past the last one).
   * @throws StorageMissing when the object does not exist (before anything is read)
   */
  get(key: string, range?: ByteRange): Promise<Readable>;
  /** Size of the object in bytes; undefined when it does not exist. */
  size(key: string): Promise<number | undefined>;
  /** Removes objects; ignores missing ones. */
  delete(keys: readonly string[]): Promise<void>;
  /** Removes every object whose key begins with `prefix`, which must end in `/`, and the remains of `put` calls. */
  deletePrefix(prefix: string): Promise<void>;
  /**
   * Keys that begin with `prefix`, which must end in `/`, at most 1,000 at a time, in the storage's own order, after the
   * key `after`. Includes temporary files of interrupted `put` calls.
   */
  list(prefix: string, after?: string): Promise<StoredObject[]>;
  /**
   * Removes what `list` does not show of `put` calls that were interrupted: those below `prefix`, which must end in `/`,
   * that began before `before`.
   */
  deleteUnfinished(prefix: string, before: Date): Promise<void>;
}

export interface StoredObject {
  key: string;
  modifiedAt: Date;
}

export interface ByteRange {
  start: number;
  end: number;
}
