import { withDeadline } from '../async.ts';
import { PartUnavailable } from '../outage.ts';
import type { Storage } from './storage.ts';

/** Of files: away, full, closed to this process, broken. Of sockets: S3 cannot be reached. */
const AWAY =
  /^(ENOSPC|EDQUOT|EACCES|EPERM|EROFS|EIO|ENXIO|ENODEV|ESTALE|EMFILE|ENFILE|ETIMEDOUT|ECONN\w+|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
const FULL = /^(ENOSPC|EDQUOT)$/;
/** What the S3 client throws without a response. */
const NO_RESPONSE = /^(TimeoutError|NetworkingError|CredentialsProviderError|RequestTimeout)$/;

const MEGABYTE = 1024 * 1024;
/** However large it is: what a timer takes. */
const LONGEST_MS = 24 * 60 * 60_000;

/** The same storage; what fails because it is away, full or closed to this process is a PartUnavailable. */
export function guardStorage(storage: Storage, answerMs?: number): Storage {
  const guarded = async <T>(work: Promise<T>, bytes = 0): Promise<T> => {
    try {
      if (answerMs === undefined) return await work;
      return await withDeadline(Math.min(answerMs * (1 + Math.floor(bytes / MEGABYTE)), LONGEST_MS), work, late);
    } catch (error) {
      throw outageOf(error) ?? error;
    }
  };
  return {
    put: (key, body) => guarded(storage.put(key, body), Buffer.isBuffer(body) ? body.length : Number.MAX_SAFE_INTEGER),
    get: (key, range) => guarded(storage.get(key, range)),
    size: (key) => guarded(storage.size(key)),
    delete: (keys) => guarded(storage.delete(keys)),
    deletePrefix: (prefix) => guarded(storage.deletePrefix(prefix)),
    list: (prefix, after) => guarded(storage.list(prefix, after)),
  };
}

const late = () => new PartUnavailable('storage');

function outageOf(cause: unknown): PartUnavailable | undefined {
  if (!(cause instanceof Error) || cause instanceof PartUnavailable) return undefined;
  const { code, name, $metadata } = cause as Error & { code?: unknown; $metadata?: { httpStatusCode?: number } };
  if (typeof code === 'string' && FULL.test(code))
    return new PartUnavailable('storage', { detail: 'the storage is full', cause });
  const status = $metadata?.httpStatusCode;
  // refused credentials, throttled, out of order
  const refused = status !== undefined && (status >= 500 || [401, 403, 429].includes(status));
  if ((typeof code === 'string' && AWAY.test(code)) || refused || NO_RESPONSE.test(name)) {
    return new PartUnavailable('storage', { cause });
  }
  return undefined;
}
