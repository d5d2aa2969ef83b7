import { sleep } from '../async.ts';
import { isCut, refusedAsLimit } from './response-codes.ts';
import type { ImapSession } from './session.ts';

/** How long logins are repeated on a server that allows no further connection, in milliseconds. */
const LIMIT_MS = 30_000;
/** How long logins are repeated on a server that hangs up without a reason, in milliseconds. */
const CUT_MS = 3_000;
const INTERVAL_MS = 500;

export interface RoomOptions {
  /** asks other users of the mailbox, in all processes, to close connections that they can spare */
  makeRoom(): Promise<void>;
  signal: AbortSignal;
  /** called when the server allows no further connection */
  onLimit?(): void;
}

/**
 * Opens a session on a server that may allow only a few connections: asks other users of the mailbox to make room.
 * @throws MailError when none could be opened in time
 */
export async function openInTurn(open: () => Promise<ImapSession>, options: RoomOptions): Promise<ImapSession> {
  for (const began = performance.now(); ; ) {
    try {
      return await open();
    } catch (error) {
      const patience = refusedAsLimit(error) ? LIMIT_MS : isCut(error) ? CUT_MS : 0;
      if (options.signal.aborted || performance.now() - began >= patience) throw error;
    }
    options.onLimit?.();
    await options.makeRoom();
    await sleep(INTERVAL_MS, options.signal);
  }
}
