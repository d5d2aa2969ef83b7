import { DAY, HOUR, MINUTE } from '../../duration.ts';
import type { Logger } from '../../runtime/logger.ts';

/*
 * Messages that a server lists and does not deliver: it refuses their FETCH, hangs up at it, or sends NIL. Each is found by
 * requesting fewer messages together, and then fetched alone, less and less often, so that it holds up no other. Only this process
 * knows about them: another one finds out anew.
 */

/** The messages of one folder under one UIDVALIDITY that were not delivered. */
export interface Undelivered {
  /** how many messages may be requested together with it: fewer and fewer after each connection that ended at it */
  together(uid: number): number;
  /** the message may be requested now */
  isDue(uid: number): boolean;
  /** the message was not delivered, in too few attempts to conclude that it will not be */
  isDelayed(uid: number): boolean;
  /** the message has not been delivered for a day */
  isGivenUp(uid: number): boolean;
  /** a command that named these messages failed, and the connection ended */
  lost(uids: readonly number[], reason: unknown): void;
  /** a message that was requested alone was refused, or came without its content */
  failed(uid: number, reason: unknown): void;
  delivered(uid: number): void;
}

/** Of all mailboxes that this process reads. */
export interface UndeliveredMessages {
  in(folder: { accountId: string; folderId: string; uidValidity: number }): Undelivered;
}

interface Failures {
  /** connections that ended while it was requested together with others */
  losses: number;
  /** messages that may be requested together with it */
  together: number;
  /** attempts in which it was requested alone */
  alone: number;
  /** epoch milliseconds */
  since: number;
  retryAt: number;
}

/** Milliseconds until a message is requested again, by the number of attempts alone. The first failure may be an outage. */
const PAUSES = [0, 0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR] as const;
/**
 * Messages that are requested together after two connections ended at more, one of which may be an outage; after one more, or two
 * that ended at so few, each is alone.
 */
const FEW = 8;
/** Attempts after which an import ends without the message. */
const ENOUGH = 3;
const GIVEN_UP_AFTER = DAY;
/** Bounds the memory; the oldest are forgotten. */
const MAX_FOLDERS = 10_000;

/** @param now epoch milliseconds; for tests */
export function createUndelivered(logger: Logger, now: () => number = Date.now): UndeliveredMessages {
  const folders = new Map<string, Map<number, Failures>>();
  return {
    in({ accountId, folderId, uidValidity }) {
      const key = `${folderId} ${uidValidity}`;
      const get = (uid: number) => folders.get(key)?.get(uid);
      const note = (uid: number, requested: number) => {
        const known = folders.get(key) ?? new Map<number, Failures>();
        const before = known.get(uid) ?? { alone: 0, losses: 0, since: now() };
        const [alone, losses] = [before.alone + (requested === 1 ? 1 : 0), before.losses + (requested === 1 ? 0 : 1)];
        const pause = PAUSES[Math.min(alone, PAUSES.length - 1)] ?? HOUR;
        const fewer = requested > FEW ? FEW : 1;
        const together = alone === 0 && losses === 1 ? Infinity : fewer;
        known.set(uid, { together, losses, alone, since: before.since, retryAt: now() + pause });
        folders.delete(key);
        folders.set(key, known);
        const [oldest] = folders.keys();
        if (folders.size > MAX_FOLDERS && oldest !== undefined) folders.delete(oldest);
        return alone;
      };
      const failed = (uid: number, err: unknown) => {
        if (note(uid, 1) !== 2) return;
        logger.warn(
          { accountId, folderId, uid, err },
          'message not delivered by the server: it is requested less often',
        );
      };
      return {
        together: (uid) => get(uid)?.together ?? Infinity,
        isDue: (uid) => (get(uid)?.retryAt ?? 0) <= now(),
        isDelayed: (uid) => (get(uid)?.alone ?? ENOUGH) < ENOUGH,
        isGivenUp: (uid) => {
          const { alone = 0, since = now() } = get(uid) ?? {};
          return alone >= PAUSES.length && now() - since >= GIVEN_UP_AFTER;
        },
        lost: (uids, err) => {
          for (const uid of uids) {
            if (uids.length === 1) failed(uid, err);
            else note(uid, uids.length);
          }
        },
        failed,
        delivered: (uid) => {
          const known = folders.get(key);
          if (known?.delete(uid) && known.size === 0) folders.delete(key);
        },
      };
    },
  };
}
