import { isReadFailure } from './read/open-source.ts';
import type { ParsedMail } from './read/parsed-mail.ts';
import { readMessage } from './read/read-message.ts';
import { createBudget, ownThread } from './thread-cpu.ts';

/* Runs in the threads of parser.ts: one task reads one message, or several small ones. */

/**
 * How much of a message is read: all of it; after a first attempt was stopped by force, all, but HTML only stripped of its
 * tags and winmail.dat not unpacked; after a second, the header alone.
 */
export type ParseDepth = 'all' | 'stripped' | 'header';

export interface ParseTask {
  messages: { source: Uint8Array | { path: string }; spillDir: string }[];
  /** milliseconds for each message, checked where reading can be interrupted */
  budgetMs: number;
  depth: ParseDepth;
  /** [0] set to 1 when the work begins, since threads start slowly; [1] the system's id of the thread, or 0 */
  started: SharedArrayBuffer;
}

const HEADER_BYTES = 1024 * 1024;

/** A failure of this machine; errors lose their code on their way between threads. */
export interface LocalFailure {
  failure: { code: string; message: string };
}

/** Reads the messages of a task, in order. */
export default async function parse(task: ParseTask): Promise<ParsedMail[] | LocalFailure> {
  try {
    return await readAll(task);
  } catch (error) {
    if (!isReadFailure(error)) throw error;
    const { code = '', message } = error as NodeJS.ErrnoException;
    return { failure: { code, message } };
  }
}

async function readAll({ messages, budgetMs, depth, started }: ParseTask): Promise<ParsedMail[]> {
  const thread = ownThread();
  const flags = new Int32Array(started);
  Atomics.store(flags, 1, thread ?? 0);
  Atomics.store(flags, 0, 1);
  const mails: ParsedMail[] = [];
  for (const { source, spillDir } of messages) {
    const isTimeUp = createBudget(budgetMs, thread);
    const bounds = {
      ...(depth === 'all' ? {} : { plainOnly: true, keepTnef: true }),
      ...(depth === 'header' ? { maxBytes: HEADER_BYTES, headerOnly: true } : {}),
    };
    mails.push(await readMessage(source, { isTimeUp, spillDir, ...bounds }));
  }
  return mails;
}
