import type { Readable } from 'node:stream';
import { withDeadline } from '../async.ts';
import { PartUnavailable } from '../outage.ts';
import type { Storage } from './types.ts';

/** Codes of files (missing device, full, no access, broken) and of sockets (S3 cannot be reached). */
const AWAY =
  /^(ENOSPC|EDQUOT|EACCES|EPERM|EROFS|EIO|ENXIO|ENODEV|ESTALE|EMFILE|ENFILE|ETIMEDOUT|ECONN\w+|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
const FULL = /^(ENOSPC|EDQUOT)$/;
/** The errors of S3 servers for a full storage, besides the status 507 (RFC 4918 11.5). */
const NO_ROOM = /^(QuotaExceeded|InsufficientStorage|XMinioStorageFull|XMinioAdminBucketQuotaExceeded)$/;
/** What the S3 client throws without a response. */
const NO_RESPONSE = /^(TimeoutError|NetworkingError|CredentialsProviderError|RequestTimeout)$/;

/** The S3 client wraps some errors of sockets without their code. */
const NOT_CONNECTED = /\bconnect E[A-Z]+\b/;

const MEGABYTE = 1024 * 1024;
/** The longest time for objects of any size, within the range of a timer. */
const LONGEST_MS = 24 * 60 * 60_000;

/**
 * Wraps a storage: failures because it is down, full or not accessible become PartUnavailable, those of the streams of
 * `get` included. `answerMs`: the time for a response, and for each megabyte that is written; default: unlimited.
 */
export function guardStorage(storage: Storage, answerMs?: number): Storage {
  const guarded = async <T>(work: Promise<T>, { bytes = 0, writes = false } = {}): Promise<T> => {
    try {
      if (answerMs === undefined) return await work;
      return await withDeadline(Math.min(answerMs * (1 + Math.floor(bytes / MEGABYTE)), LONGEST_MS), work, late);
    } catch (error) {
      throw outageOf(error, writes) ?? error;
    }
  };
  return {
    put: (key, body) =>
      guarded(storage.put(key, body), {
        bytes: Buffer.isBuffer(body) ? body.length : Number.MAX_SAFE_INTEGER,
        writes: true,
      }),
    async get(key, range) {
      const work = storage.get(key, range);
      try {
        return withOutages(await guarded(work));
      } catch (error) {
        // bytes that come after the deadline are not read, and would hold their connection
        work.then(
          (stream) => stream.destroy(),
          () => {},
        );
        throw error;
      }
    },
    size: (key) => guarded(storage.size(key)),
    delete: (keys) => guarded(storage.delete(keys)),
    deletePrefix: (prefix) => guarded(storage.deletePrefix(prefix)),
    list: (prefix, after) => guarded(storage.list(prefix, after)),
    deleteUnfinished: (prefix, before) => guarded(storage.deleteUnfinished(prefix, before)),
  };
}

/** The same stream; its failures become PartUnavailable, too. */
function withOutages(stream: Readable): Readable {
  const destroy = stream.destroy.bind(stream);
  stream.destroy = (error) => destroy(error && (outageOf(error, false) ?? error));
  return stream;
}

const late = () => new PartUnavailable('storage');

/** A missing folder, or a file system without inodes, which Node reports as ENOENT, too. */
const NO_FOLDER = /^(ENOENT|ENOTDIR)$/;

function outageOf(cause: unknown, writes: boolean): PartUnavailable | undefined {
  if (typeof cause !== 'object' || cause === null || cause instanceof PartUnavailable) return undefined;
  const { code, name, message, $metadata } = cause as Error & {
    code?: unknown;
    $metadata?: { httpStatusCode?: number };
  };
  const { httpStatusCode: status = 200 } = $metadata ?? {};
  const said = typeof code === 'string' ? code : '';
  if (FULL.test(said) || NO_ROOM.test(name) || status === 507) {
    return new PartUnavailable('storage', { detail: 'the storage is full', full: true, cause });
  }
  const signs = [
    AWAY.test(said),
    writes && NO_FOLDER.test(said),
    // refused credentials, throttled, out of order
    status >= 500 || [401, 403, 429].includes(status),
    NO_RESPONSE.test(name),
    NOT_CONNECTED.test(message),
  ];
  return signs.includes(true) ? new PartUnavailable('storage', { cause }) : undefined;
}
