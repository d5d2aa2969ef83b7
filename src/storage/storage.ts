import { fileURLToPath } from 'node:url';
import { openFileStorage } from './file.ts';
import { guardStorage } from './guard.ts';
import type { Storage } from './types.ts';

export { StorageMissing } from './keys.ts';
export type { ByteRange, Storage, StoredObject } from './types.ts';

/** For S3, besides the AWS variables; see STORAGE_URL and S3_ENDPOINT. */
export interface StorageOptions {
  /** another server than Amazon's, addressed in path style */
  s3Endpoint?: string;
  /** ms until a call without a response fails, and for each megabyte of a write; default: unlimited */
  answerMs?: number;
  /** ms without a byte, sent or received, after which a connection to S3 is given up; default: one minute */
  s3IdleMs?: number;
}

/**
 * Opens the storage of a STORAGE_URL: `file:///var/lib/mail`, `file:./data` (relative to the working directory) or
 * `s3://bucket/prefix`. Nothing is read or written yet. Failures because the storage is down, full or not accessible
 * reject with PartUnavailable.
 * @throws Error of one line when the URL is of another kind
 */
export function openStorage(url: string, options: StorageOptions = {}): Storage {
  return guardStorage(openUnguarded(url, options), options.answerMs);
}

function openUnguarded(url: string, options: StorageOptions): Storage {
  if (url.startsWith('file://')) return openFileStorage(fileURLToPath(url));
  if (url.startsWith('file:') && url.length > 5) return openFileStorage(url.slice(5));
  const bucket = /^s3:\/\/([a-z0-9][a-z0-9.-]+)(?:\/(.*))?$/.exec(url);
  if (bucket) {
    const { s3Endpoint: endpoint, s3IdleMs: idleMs } = options;
    const settings = { bucket: bucket[1] ?? '', prefix: bucket[2] ?? '', endpoint, idleMs };
    return whenNeeded(async () => (await import('./s3.ts')).openS3Storage(settings));
  }
  throw new Error('the storage URL is neither file:<folder> nor s3://<bucket>/<prefix>');
}

/** Loads a storage on first use: the S3 client needs memory that a storage of files does not. */
function whenNeeded(load: () => Promise<Storage>): Storage {
  let opened: Promise<Storage> | undefined;
  const storage = (): Promise<Storage> => (opened ??= load());
  return {
    put: async (key, body) => (await storage()).put(key, body),
    get: async (key, range) => (await storage()).get(key, range),
    size: async (key) => (await storage()).size(key),
    delete: async (keys) => (await storage()).delete(keys),
    deletePrefix: async (prefix) => (await storage()).deletePrefix(prefix),
    list: async (prefix, after) => (await storage()).list(prefix, after),
    deleteUnfinished: async (prefix, before) => (await storage()).deleteUnfinished(prefix, before),
  };
}
