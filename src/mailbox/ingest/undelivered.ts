import { DAY, HOUR, MINUTE, SECOND } from '../../duration.ts';
import type { Logger } from '../../runtime/logger.ts';

/*
 * Messages that a server lists and does not deliver: it refuses their FETCH, hangs up at it, or sends NIL. Each is found by
 * requesting fewer messages together, and then fetched alone, less and less often, so that it holds up no other. Only this process
 * knows about them. Another one finds them out anew: the stored count of their folder lacks them, so that it differs from the server's.
 */

/** A message that the server has not delivered, and may deliver soon. */
export interface NotDelivered {
  uid: number;
  /** of the last attempt */
  reason: unknown;
  /** attempted too few times to conclude that it will not be delivered */
  isDelayed: boolean;
}

/** The messages of one folder under one UIDVALIDITY that were not delivered. */
export interface Undelivered {
  /** how many messages may be requested together with it: fewer and fewer after each connection that ended at it */
  together(uid: number): number;
  /** the message may be requested now */
  isDue(uid: number): boolean;
  /** whether one that failed alone may be requested now */
  isAnyDue(): boolean;
  /** the message has failed alone */
  isPending(uid: number): boolean;
  /** how many have failed alone: none of them is stored */
  count(): number;
  /** those that have failed alone, without those given up; of these UIDs, or of all */
  pending(uids?: readonly number[]): NotDelivered[];
  /** the message has not been delivered for a day */
  isGivenUp(uid: number): boolean;
  /** a command that named these messages failed, and the connection ended */
  lost(uids: readonly number[], reason: unknown): void;
  /** a command that named messages without their UIDs failed, and the connection ended */
  lostUnnamed(reason: unknown): void;
  /** these are the messages that the last such command named */
  name(uids: readonly number[]): void;
  /** whether a message with this UID or a higher one failed, or may have: they are requested by their UIDs */
  isSuspect(from: number): boolean;
  /** a message that was requested alone was refused, or came without its content */
  failed(uid: number, reason: unknown): void;
  /** it was delivered, or is stored without its content */
  forget(uid: number): void;
  /** forgets the messages that the folder no longer has, and those that are stored */
  keepOnly(isLeft: (uid: number) => boolean): void;
}

export interface UndeliveredFolder {
  accountId: string;
  folderId: string;
  uidValidity: number;
  /** mail from before the connect, of which the store may have a location */
  isImport?: boolean;
}

/** Of all mailboxes that this process reads. */
export interface UndeliveredMessages {
  in(folder: UndeliveredFolder): Undelivered;
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
  reason: unknown;
}

/**
 * Milliseconds until a message is requested again at which the connection ended, by the number of attempts alone. The first failure
 * may be an outage.
 */
const PAUSES: readonly number[] = [0, 0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR];

/** Milliseconds until a message is requested again that was refused for `ms`; the connection has stayed. */
const pauseAfter = (ms: number) => Math.min(Math.max(ms / 2, SECOND), HOUR);
/**
 * Messages that are requested together after two connections ended at more, one of which may be an outage; after one more, or two
 * that ended at so few, each is alone.
 */
const FEW = 8;
/** Attempts, and milliseconds since the first, after which an import ends without the message. */
const ENOUGH = { attempts: 3, ms: MINUTE };
/** Attempts after which a message may be given up. */
const MANY = 6;
const GIVEN_UP_AFTER = DAY;
/** Bounds the memory; the oldest are forgotten. */
const MAX_FOLDERS = 10_000;

/** In place of the UIDs that a command did not name: above all that a message may have. */
const UNNAMED = Number.MAX_SAFE_INTEGER;

/** @param now epoch milliseconds; for tests */
export function createUndelivered(logger: Logger, now: () => number = Date.now): UndeliveredMessages {
  const folders = new Map<string, Map<number, Failures>>();
  return {
    in(folder) {
      const { accountId, folderId, uidValidity, isImport = false } = folder;
      const known = failuresIn(folders, `${folderId} ${uidValidity} ${isImport}`, now);
      const failed = (uid: number, err: unknown, isLost = false) => {
        if (known.note(uid, 1, err, isLost) !== 2) return;
        logger.warn(
          { accountId, folderId, uid, err },
          'message not delivered by the server: it is requested less often',
        );
      };
      const lost = (uids: readonly number[], err: unknown) => {
        for (const uid of uids) {
          if (uids.length === 1) failed(uid, err, true);
          else known.note(uid, uids.length, err, true);
        }
      };
      return {
        ...undeliveredOf(known, now),
        lost,
        lostUnnamed: (err) => void known.note(UNNAMED, Infinity, err, true),
        name: (uids) => {
          const unnamed = known.all().get(UNNAMED);
          known.forget(UNNAMED);
          if (unnamed) lost(uids, unnamed.reason);
        },
        failed: (uid, err) => failed(uid, err),
      };
    },
  };
}

interface FailuresInFolder {
  all(): ReadonlyMap<number, Failures>;
  /** @returns the attempts in which the message was requested alone */
  note(uid: number, requested: number, reason: unknown, isLost: boolean): number;
  forget(uid: number): void;
}

/** The part of `folders` under this key, which has none without a message. */
function failuresIn(folders: Map<string, Map<number, Failures>>, key: string, now: () => number): FailuresInFolder {
  return {
    all: () => folders.get(key) ?? new Map<number, Failures>(),
    note(uid, requested, reason, isLost) {
      const known = folders.get(key) ?? new Map<number, Failures>();
      const before = known.get(uid) ?? { alone: 0, losses: 0, since: now() };
      const [alone, losses] = [before.alone + (requested === 1 ? 1 : 0), before.losses + (requested === 1 ? 0 : 1)];
      const longer = isLost ? (PAUSES[alone] ?? HOUR) : pauseAfter(now() - before.since);
      const pause = alone < 2 ? 0 : longer;
      const fewer = requested > FEW ? FEW : 1;
      const together = alone === 0 && losses === 1 ? Infinity : fewer;
      known.set(uid, { together, losses, alone, since: before.since, retryAt: now() + pause, reason });
      folders.delete(key);
      folders.set(key, known);
      const [oldest] = folders.keys();
      if (folders.size > MAX_FOLDERS && oldest !== undefined) folders.delete(oldest);
      return alone;
    },
    forget(uid) {
      const known = folders.get(key);
      if (known?.delete(uid) && known.size === 0) folders.delete(key);
    },
  };
}

function undeliveredOf(
  { all, forget }: FailuresInFolder,
  now: () => number,
): Omit<Undelivered, 'lost' | 'lostUnnamed' | 'name' | 'failed'> {
  const get = (uid: number) => all().get(uid);
  const isPending = (uid: number) => (get(uid)?.alone ?? 0) > 0;
  const isGivenUp = (uid: number) => {
    const { alone = 0, since = now() } = get(uid) ?? {};
    return alone >= MANY && now() - since >= GIVEN_UP_AFTER;
  };
  return {
    together: (uid) => get(uid)?.together ?? Infinity,
    isDue: (uid) => (get(uid)?.retryAt ?? 0) <= now(),
    isAnyDue: () => [...all().values()].some(({ alone, retryAt }) => alone > 0 && retryAt <= now()),
    isPending,
    isSuspect: (from) => [...all().keys()].some((uid) => uid >= from),
    count: () => [...all().keys()].filter(isPending).length,
    pending: (uids = [...all().keys()]) =>
      uids.flatMap((uid) => {
        const { since = 0, alone = 0, reason } = get(uid) ?? {};
        const isDelayed = alone < ENOUGH.attempts || now() - since < ENOUGH.ms;
        return !isPending(uid) || isGivenUp(uid) ? [] : [{ uid, reason, isDelayed }];
      }),
    isGivenUp,
    forget,
    keepOnly: (isLeft) => {
      for (const uid of all().keys()) if (!isLeft(uid)) forget(uid);
    },
  };
}
