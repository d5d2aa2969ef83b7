/** A part of this installation, as named in responses. */
export type InstallationPart = 'database' | 'storage' | 'temporal' | 'worker';

const CANNOT_BE_REACHED: Record<InstallationPart, string> = {
  database: 'the database cannot be reached now',
  storage: 'the storage cannot be reached now',
  temporal: 'Temporal cannot be reached now',
  worker: 'no worker is available',
};

/** A part of this installation is down, frozen or full. */
export class PartUnavailable extends Error {
  override readonly name = 'PartUnavailable';
  readonly part: InstallationPart;
  /** may be shown to callers */
  readonly detail: string;
  /** it is full; a smaller write may fit */
  readonly full: boolean;
  constructor(part: InstallationPart, options: { detail?: string; full?: boolean; cause?: unknown } = {}) {
    const detail = options.detail ?? CANNOT_BE_REACHED[part];
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.part = part;
    this.detail = detail;
    this.full = options.full ?? false;
  }
}

/**
 * SQLSTATE classes and codes of temporary failures (connection lost, only reads since a failover or with a full disk, serialization,
 * deadlock, out of resources, shutting down), and those of sockets and files.
 */
const TEMPORARY =
  /^(08...|25006|25P03|40001|40P01|53...|57P0.|57014|58030|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOSPC|EDQUOT|EROFS|EIO|EMFILE|ENFILE)$/;

/** Messages of pg and pg-pool without a code. */
const LOST =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|timeout expired|timeout exceeded when trying to connect)/;

/** gRPC: CANCELLED (some connections report their own deadline so), DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE. */
const GRPC = new Set([1, 4, 8, 14]);

/** An error and its causes, eight at most. */
export function* causesOf(error: unknown): Generator<Error> {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    yield at;
  }
}

/** The part of this installation that an error reports as down, busy or full; undefined for other errors. */
export function unavailablePart(error: unknown): PartUnavailable | undefined {
  for (const at of causesOf(error)) {
    if (at instanceof PartUnavailable) return at;
    const { code } = at as { code?: unknown };
    if (typeof code === 'number' && GRPC.has(code)) return new PartUnavailable('temporal', { cause: error });
    if (isStorageFull(at))
      return new PartUnavailable('storage', { detail: 'the storage is full', full: true, cause: error });
    // what else the storage fails with is a PartUnavailable already
    if (isTemporary(at)) return new PartUnavailable('database', { cause: error });
  }
  return undefined;
}

/** Whether a write failed for lack of space: in the storage, or on the disk with the temporary files. */
export function isStorageFull(error: unknown): boolean {
  if (error instanceof PartUnavailable) return error.part === 'storage' && error.full;
  const { code } = error as { code?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** Whether our own store is down, busy or full. Drizzle wraps the driver's error; the inner one has the code. */
export function isUnavailable(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at instanceof PartUnavailable || isTemporary(at)) return true;
  }
  return false;
}

/** Whether the database refused a write since it only reads (read_only_sql_transaction): a new connection may reach one that writes. */
export function isReadOnly(error: unknown): boolean {
  return [...causesOf(error)].some((at) => (at as { code?: unknown }).code === '25006');
}

function isTemporary(error: Error): boolean {
  const { code } = error as { code?: unknown };
  return (typeof code === 'string' && TEMPORARY.test(code)) || LOST.test(error.message);
}
