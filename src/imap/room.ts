import { sleep } from '../async.ts';
import { isCut, refusedAsLimit } from './response-codes.ts';
import type { ImapSession } from './session.ts';

/** How long a server that says it allows no further connection is tried again, in milliseconds. */
const LIMIT_MS = 30_000;
/** The same of one that hangs up without a reason. */
const CUT_MS = 3_000;
const INTERVAL_MS = 500;

export interface RoomOptions {
  /** asks others, in whatever process, to end connections to the mailbox that can be ended */
  makeRoom(): Promise<void>;
  signal: AbortSignal;
  /** called when the server allows no connection beside those that there are */
  onLimit?(): void;
}

/**
 * Opens a session on a server that may allow only a few connections: others make room for it.
 * @throws MailError when none could be had in time
 */
export async function openInTurn(open: () => Promise<ImapSession>, options: RoomOptions): Promise<ImapSession> {
  for (const began = Date.now(); ; ) {
    try {
      return await open();
    } catch (error) {
      const patience = refusedAsLimit(error) ? LIMIT_MS : isCut(error) ? CUT_MS : 0;
      if (options.signal.aborted || Date.now() - began >= patience) throw error;
    }
    options.onLimit?.();
    await options.makeRoom();
    await sleep(INTERVAL_MS, options.signal);
  }
}
