import { randomUUID } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Piscina } from 'piscina';
import { createLimiter } from '../async.ts';
import type { LocalFailure, ParseDepth, ParseTask } from './parse-worker.ts';
import { isReadFailure } from './read/open-source.ts';
import type { ParsedAttachment, ParsedMail } from './read/parsed-mail.ts';
import { minimalMail } from './read/read-message.ts';
import { createBudget } from './thread-cpu.ts';

export type { BounceReport } from './bounces.ts';
export type { ParsedAttachment, ParsedMail } from './read/parsed-mail.ts';
export { hasAttachments, withBcc } from './read/parsed-mail.ts';

export interface MailParserOptions {
  /** worker threads at most (default 1) */
  threads?: number;
  /** milliseconds after which reading a mail is cut short (default 2,000) */
  timeoutMs?: number;
  /** heap of one thread in MB (default 200) */
  memoryMb?: number;
  /** folder for the attachments of mails with more than 256 KB of them */
  tempDir: string;
}

/** A message as bytes or as a file of them. */
export type MailSource = Buffer | { path: string };

export interface ParseOptions {
  /** multiple of the usual time that a mail may take (default 1); above 1, a separate thread: other mail does not wait */
  patience?: number;
}

export interface MailParser {
  /**
   * Reads one message. Never fails because of the message: parts that exceed time or memory are left out (isPartial).
   * When `tempDir` of the result is set, the caller removes that folder.
   * @throws when the file of the source cannot be read, or the parser is closed
   */
  parse(source: MailSource, options?: ParseOptions): Promise<ParsedMail>;
  /** Reads several messages, in order, at a lower cost for each: small ones share a task. Fails as `parse` does. */
  parseMany(sources: readonly MailSource[]): Promise<ParsedMail[]>;
  /**
   * Starts new threads for further mail; the previous ones exit after their last task, which frees the memory in which they
   * read mail.
   */
  replaceThreads(): void;
  /** Stops the threads; running parses fail. */
  close(): Promise<void>;
}

/** Messages and bytes in one task at most. */
const BATCH_MAILS = 16;
const BATCH_BYTES = 512 * 1024;
const SMALL_BYTES = 64 * 1024;
/** Larger messages have separate threads: they take seconds, and others must not wait for them. */
const LARGE_BYTES = 1024 * 1024;
/** The share of the time after which a thread stops voluntarily and returns the result so far. */
const SOFT_SHARE = { all: 0.8, stripped: 0.4, header: 0.8 };
const HEADER_MS = 400;
const CHECK_MS = 50;
const IDLE_MS = 30_000;

/**
 * A parser with worker threads: one at first, more under load; those beyond the first stop after 30 s without work. Large
 * messages have separate threads, half as many: small ones do not wait for them.
 */
export function createMailParser(options: MailParserOptions): MailParser {
  const { timeoutMs = 2000, memoryMb = 200, tempDir } = options;
  const threads = Math.max(1, options.threads ?? 1);
  const largeThreads = Math.max(1, threads >> 1);
  const pools = new ThreadPools(
    () =>
      new Piscina({
        filename: workerFile(),
        minThreads: 1,
        // one for mail that may take longer
        maxThreads: threads + largeThreads + 1,
        idleTimeout: IDLE_MS,
        resourceLimits: { maxOldGenerationSizeMb: memoryMb },
        ...typescriptFlags(),
      }),
  );
  const slots = { small: createLimiter(threads), large: createLimiter(largeThreads), patient: createLimiter(1) };
  let closed = false;

  const run = (slot: Slot, sources: readonly MailSource[], limitMs: number, depth: ParseDepth): Promise<ParsedMail[]> =>
    slots[slot](() => {
      if (closed) throw new Error('the mail parser is closed');
      return pools.use((pool) => runTask(pool, sources, { limitMs, depth, tempDir }));
    });

  /** Parses one mail, less deeply after each attempt that was stopped by force. */
  async function parse(source: MailSource, { patience = 1 }: ParseOptions = {}): Promise<ParsedMail> {
    const attempts: [ParseDepth, number][] = [
      ['all', timeoutMs * patience],
      ['stripped', timeoutMs * patience],
      ['header', HEADER_MS],
    ];
    const slot = patience > 1 ? 'patient' : await slotOf([source]);
    for (const [depth, limitMs] of attempts) {
      try {
        const mail = only(await run(slot, [source], limitMs, depth));
        return depth === 'all' ? mail : { ...mail, isPartial: true };
      } catch (error) {
        if (isReadFailure(error) || closed) throw error;
      }
    }
    return minimalMail(source);
  }

  async function parseMany(sources: readonly MailSource[]): Promise<ParsedMail[]> {
    const results = await Promise.all(
      batches(sources).map(async (batch) => {
        if (batch.length === 1) return Promise.all(batch.map((source) => parse(source)));
        try {
          return await run(await slotOf(batch), batch, timeoutMs, 'all');
        } catch {
          // One of them is the cause: read each alone.
          return Promise.all(batch.map((source) => parse(source)));
        }
      }),
    );
    return results.flat();
  }

  async function close(): Promise<void> {
    closed = true;
    await pools.close();
  }

  return { parse, parseMany, replaceThreads: () => pools.replace(), close };
}

/** The threads that accept tasks, and replaced threads with unfinished tasks. */
class ThreadPools {
  readonly #open: () => Piscina;
  #current: Piscina;
  readonly #tasks = new Map<Piscina, number>();
  #isClosed = false;

  constructor(open: () => Piscina) {
    this.#open = open;
    this.#current = this.#start();
  }

  async use<T>(work: (pool: Piscina) => Promise<T>): Promise<T> {
    const pool = this.#current;
    this.#count(pool, 1);
    try {
      return await work(pool);
    } finally {
      this.#count(pool, -1);
      await this.#endReplaced(pool);
    }
  }

  replace(): void {
    if (this.#isClosed) return;
    const replaced = this.#current;
    this.#current = this.#start();
    void this.#endReplaced(replaced);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#tasks.keys()].map((pool) => pool.destroy()));
  }

  #start(): Piscina {
    const pool = this.#open();
    // A thread that ran out of memory between tasks is replaced; failures of tasks reject their own promises.
    pool.on('error', () => {});
    this.#tasks.set(pool, 0);
    return pool;
  }

  #count(pool: Piscina, more: number): void {
    this.#tasks.set(pool, (this.#tasks.get(pool) ?? 0) + more);
  }

  async #endReplaced(pool: Piscina): Promise<void> {
    if (pool === this.#current || this.#tasks.get(pool) !== 0) return;
    this.#tasks.delete(pool);
    await pool.destroy();
  }
}

interface TaskOptions {
  limitMs: number;
  depth: ParseDepth;
  tempDir: string;
}

/** Runs one task in a thread, which is stopped by force when the task takes too long. */
async function runTask(pool: Piscina, sources: readonly MailSource[], { limitMs, depth, tempDir }: TaskOptions) {
  const messages = sources.map((source) => ({
    source: portable(source),
    spillDir: join(tempDir, `mail-${randomUUID()}`),
  }));
  const started = new SharedArrayBuffer(8);
  const flag = new Int32Array(started);
  const task: ParseTask = { messages, budgetMs: limitMs * SOFT_SHARE[depth], depth, started };
  const transferList = messages.flatMap(({ source }) => ('path' in source ? [] : [source.buffer]));
  const abort = new AbortController();
  // The time counts from the start of the work: starting a thread takes a while.
  let isTimeUp: (() => boolean) | null = null;
  const timer = setInterval(() => {
    if (Atomics.load(flag, 0) === 0) return;
    isTimeUp ??= createBudget(limitMs - CHECK_MS, Atomics.load(flag, 1) || null);
    if (isTimeUp()) abort.abort();
  }, CHECK_MS);
  try {
    const read = (await pool.run(task, { signal: abort.signal, transferList })) as ParsedMail[] | LocalFailure;
    if ('failure' in read) throw Object.assign(new Error(read.failure.message), { code: read.failure.code });
    return read.map(revived);
  } catch (error) {
    await Promise.all(messages.map(({ spillDir }) => rm(spillDir, { recursive: true, force: true })));
    throw error;
  } finally {
    clearInterval(timer);
  }
}

/** The threads that read a mail; `patient`: for mail that may take long. */
type Slot = 'small' | 'large' | 'patient';

async function slotOf([first]: readonly MailSource[]): Promise<Slot> {
  if (first === undefined) return 'small';
  return (Buffer.isBuffer(first) ? first.length : (await stat(first.path)).size) > LARGE_BYTES ? 'large' : 'small';
}

/** Copies bytes into a separate buffer, which is transferred and not copied again. */
function portable(source: MailSource): Uint8Array<ArrayBuffer> | { path: string } {
  return Buffer.isBuffer(source) ? new Uint8Array(source) : { path: source.path };
}

/** Dates and bytes lose their classes between threads: restores Date and Buffer. */
function revived(mail: ParsedMail): ParsedMail {
  return { ...mail, date: mail.date && new Date(mail.date), attachments: mail.attachments.map(withBuffer) };
}

function withBuffer(attachment: ParsedAttachment): ParsedAttachment {
  const { content } = attachment;
  if ('path' in content) return attachment;
  return { ...attachment, content: Buffer.from(content.buffer, content.byteOffset, content.byteLength) };
}

function batches(sources: readonly MailSource[]): MailSource[][] {
  const result: MailSource[][] = [];
  let bytes = 0;
  let isOpen = false;
  for (const source of sources) {
    const size = Buffer.isBuffer(source) ? source.length : Number.POSITIVE_INFINITY;
    const last = result.at(-1);
    if (isOpen && last && size <= SMALL_BYTES && last.length < BATCH_MAILS && bytes + size <= BATCH_BYTES) {
      last.push(source);
      bytes += size;
    } else {
      result.push([source]);
      bytes = size;
      isOpen = size <= SMALL_BYTES;
    }
  }
  return result;
}

function only(mails: ParsedMail[]): ParsedMail {
  const [mail] = mails;
  if (!mail) throw new Error('the parser returned no mail');
  return mail;
}

const isSource = import.meta.url.endsWith('.ts');

/** The path of the worker next to this file: TypeScript when run from source, JavaScript when built. */
function workerFile(): string {
  return new URL(`./parse-worker.${isSource ? 'ts' : 'js'}`, import.meta.url).href;
}

/** When run from source, threads need a loader; the main thread may have another one (jest). */
function typescriptFlags(): { execArgv: string[] } | Record<string, never> {
  if (!isSource) return {};
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  return { execArgv: ['--import', loader] };
}
