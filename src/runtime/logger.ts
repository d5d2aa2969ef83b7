import { type DestinationStream, type Logger, pino } from 'pino';

import { openLineOutput } from './line-output.ts';
import { currentRequestId } from './request-context.ts';

export type { Logger } from 'pino';

/** Keys that are hidden in log lines, in any object up to two levels deep. */
const SECRET_KEYS = [
  'password',
  'credentials',
  'secret',
  'apiKey',
  'api_key',
  'authorization',
  'headers',
  'body',
  'body_plain',
  'subject',
  'identifier',
  'display_name',
];

/**
 * Creates the logger of a process: JSON lines on standard output with time, level and name, a few milliseconds late. Logs
 * hold ids, counts, codes and durations; never bodies, subjects, addresses or secrets, hence the bounded form of errors.
 */
export function createLogger(level: string, name: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    name,
    base: { pid: process.pid },
    mixin: () => {
      const requestId = currentRequestId();
      return requestId === undefined ? {} : { requestId };
    },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    // `error`: of lines of the Temporal SDK
    serializers: { err: describeError, error: describeError },
    redact: { paths: SECRET_KEYS.flatMap((key) => [key, `*.${key}`, `*.*.${key}`]), censor: '[hidden]' },
  };
  return pino(options, destination ?? (standardOutput ??= gatherLines(1)));
}

let standardOutput: DestinationStream | undefined;

/** Lines wait so long for others, ms: writing a single one costs more than making it. */
const GATHER_MS = 50;
/** Bytes that a pipe accepts atomically (PIPE_BUF of Linux): lines of several processes do not mix. */
const PIPE_LENGTH = 4096;
const WARN = 40;

/**
 * Writes lines to an open file in batches: immediately after a warning or an error, and when the process exits. A killed
 * process may lose the last ones. Never waits for the reader; lines that cannot be written are dropped.
 */
export function gatherLines(fd: number): DestinationStream {
  const output = openLineOutput(fd);
  let gathered = '';
  let timer: NodeJS.Timeout | undefined;
  const take = () => {
    clearTimeout(timer);
    timer = undefined;
    const lines = gathered;
    gathered = '';
    return lines;
  };
  const flush = () => output.write(take());
  const end = () => output.writeLast(take());
  process.on('beforeExit', end).on('exit', end);
  return {
    // pino sets `lastLevel` where this is true
    ...{ [Symbol.for('pino.metadata')]: true, lastLevel: 0 },
    write(this: { lastLevel: number }, line: string) {
      if (gathered.length + line.length > PIPE_LENGTH) flush();
      gathered += line;
      if (this.lastLevel >= WARN) flush();
      else timer ??= setTimeout(flush, GATHER_MS).unref();
    },
  };
}

/** An error as a log line may hold it. */
export interface ErrorDescription {
  type: string;
  code?: string;
  message: string;
  /** the frames, without the message that a stack begins with */
  stack?: string;
  cause?: ErrorDescription;
}

const MAX_CAUSES = 4;

/** Errors of the libraries that speak to mail servers have one of these, and may have the server's text in their message. */
const SERVER_TEXT = ['response', 'responseText', 'responseCode', 'responseStatus', 'serverResponseCode'];

/**
 * An error as it may be logged. Messages of databases and mail servers quote values (a row, an address, a subject): everything
 * quoted, in brackets or like an address is removed, and only the first line stays.
 */
export function describeError(error: unknown, depth = 0): ErrorDescription {
  if (!(error instanceof Error) && !isErrorLike(error)) return { type: typeof error, message: '' };
  const code: unknown = 'code' in error ? error.code : undefined;
  const frames = error.stack?.split('\n').filter((line) => /^\s+at /.test(line));
  return {
    type: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code: String(code) } : {}),
    message: SERVER_TEXT.some((key) => key in error) ? '' : masked(error.message),
    ...(frames === undefined || frames.length === 0 ? {} : { stack: frames.join('\n') }),
    ...(error.cause === undefined || depth >= MAX_CAUSES ? {} : { cause: describeError(error.cause, depth + 1) }),
  };
}

/** Errors from another realm (worker threads, test runners) are not `instanceof Error`. */
function isErrorLike(value: unknown): value is Error {
  return (
    typeof value === 'object' &&
    value !== null &&
    'message' in value &&
    typeof value.message === 'string' &&
    'name' in value &&
    typeof value.name === 'string'
  );
}

/** A text of another program as it may be logged: its first line, without what is quoted, in brackets or like an address. */
export function masked(message: string): string {
  const [firstLine = ''] = message.split(/\r|\n/, 1);
  // "Failed query: insert … params: …": both halves may hold values
  if (/^Failed query\b/.test(firstLine)) return 'Failed query';
  return firstLine
    .replace(/"[^"]*"?|`[^`]*`?|<[^>]*>?|(?<![A-Za-z0-9])'[^']*'?/g, '…')
    .replace(/[^\s@]+@[^\s@]+/g, '…')
    .slice(0, 300);
}
