import { createBudget } from './budget.ts';
import { readMessage } from './read/read-message.ts';

/* What the threads of parse.ts run: one task reads one message, or several small ones. */

export interface ParseTask {
  messages: { source: Uint8Array | { path: string }; spillDir: string }[];
  /** read each for at most this long, counted where it can be interrupted */
  budgetMs: number;
  /** a second try, after the first was ended by force: no files, no HTML conversion, the first MB only */
  cautious: boolean;
  /** set to 1 as soon as the work begins: threads take a while to start */
  started: SharedArrayBuffer;
}

const CAUTIOUS_BYTES = 1024 * 1024;

/** Reads the messages of a task, in order. */
export default async function parse({ messages, budgetMs, cautious, started }: ParseTask) {
  Atomics.store(new Int32Array(started), 0, 1);
  const mails = [];
  for (const { source, spillDir } of messages) {
    const isTimeUp = createBudget(budgetMs);
    const bounds = cautious ? { maxBytes: CAUTIOUS_BYTES, skipFiles: true, plainOnly: true } : {};
    mails.push(await readMessage(source, { isTimeUp, spillDir, ...bounds }));
  }
  return mails;
}
