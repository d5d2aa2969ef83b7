import { readMessage } from './read/read-message.ts';

/* What the threads of parser.ts run: one task reads one message, or several small ones. */

export interface ParseTask {
  messages: { source: Uint8Array | { path: string }; spillDir: string }[];
  /** read each for at most this long, counted where it can be interrupted */
  budgetMs: number;
  /** a second attempt, after the first was stopped by force: no files, no HTML conversion, the first MB only */
  cautious: boolean;
  /** set to 1 as soon as the work begins: threads take a while to start */
  started: SharedArrayBuffer;
}

/** Reads the messages of a task, in order. */
export default async function parse({ messages, budgetMs, cautious, started }: ParseTask) {
  Atomics.store(new Int32Array(started), 0, 1);
  const mails = [];
  for (const { source, spillDir } of messages) {
    const isTimeUp = createBudget(budgetMs);
    const bounds = cautious ? { plainOnly: true } : {};
    mails.push(await readMessage(source, { isTimeUp, spillDir, ...bounds }));
  }
  return mails;
}

/** How much longer than its budget work may take where the machine is too busy to give it the CPU. */
const PATIENCE = 3;

/**
 * A budget of time, in ms, for work that begins now. Returns a function that says whether it is used up. Only time with
 * the CPU counts: an overloaded machine must not cut mail short. After three times the budget on the clock it is used up
 * in any case.
 */
export function createBudget(ms: number): () => boolean {
  const startedAt = performance.now();
  const startedWith = process.cpuUsage();
  return () => {
    const elapsed = performance.now() - startedAt;
    if (elapsed <= ms) return false;
    const { user, system } = process.cpuUsage(startedWith);
    return elapsed > ms * PATIENCE || (user + system) / 1000 > ms;
  };
}
