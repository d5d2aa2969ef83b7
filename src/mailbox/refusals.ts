import { refusalCode } from '../imap/response-codes.ts';
import type { MailError } from '../mail-wire/mail-error.ts';
import type { Logger } from '../runtime/logger.ts';

/**
 * The folders of one mailbox that the server does not open, or in which it refuses a command. Each is left alone for half
 * the time for which it has been refused, 15 minutes at most.
 */
export interface FolderRefusals {
  note(folderId: string, refusal: MailError): void;
  /** the folder was read to its end */
  clear(folderId: string): void;
  /** whether the folder may be tried: it was not refused, or long enough ago */
  isDue(folderId: string): boolean;
  /** names the command that was refused in the first of these folders, for people */
  describe(folderIds: readonly string[]): string;
}

const LONGEST_PAUSE_MS = 15 * 60_000;
/** A shorter pause would end before the next poll, and put off a pass that is made for another reason. */
const SHORTEST_PAUSE_MS = 1_000;

/** @param ms for which the folder has been refused */
function pauseAfter(ms: number): number {
  return ms / 2 < SHORTEST_PAUSE_MS ? 0 : Math.min(ms / 2, LONGEST_PAUSE_MS);
}

interface Refused {
  since: number;
  retryAt: number;
  refusal: MailError;
}

/** None is refused yet. Logs the first refusal of each folder, and when it is over. */
export function createFolderRefusals(accountId: string, logger: Logger): FolderRefusals {
  const byId = new Map<string, Refused>();
  return {
    note(folderId, refusal) {
      const now = Date.now();
      const { since, refusal: before } = byId.get(folderId) ?? { since: now, refusal: undefined };
      byId.set(folderId, { since, refusal, retryAt: now + pauseAfter(now - since) });
      const { command } = refusal;
      if (before?.command === command) return;
      logger.warn({ accountId, folderId, command, code: refusalCode(refusal) }, 'command refused in a folder');
    },
    clear(folderId) {
      if (byId.delete(folderId)) logger.info({ accountId, folderId }, 'no command refused in the folder any longer');
    },
    isDue: (folderId) => (byId.get(folderId)?.retryAt ?? 0) <= Date.now(),
    describe(folderIds) {
      const [first, ...others] = folderIds.filter((id) => byId.has(id));
      const refusal = first === undefined ? undefined : byId.get(first)?.refusal;
      if (!refusal) return `${folderIds.length} of the folders could not be read`;
      const rest = others.length === 0 ? '' : `, and commands in ${others.length} other folders`;
      return `${refusal.detail} (in the folder ${first}${rest})`;
    },
  };
}
