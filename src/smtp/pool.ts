import { MailError } from '../mail-error.ts';
import type { ServerLogin } from '../contract/account.ts';
import type { SmtpSession } from './session.ts';

/** A connection for one message; ends with exactly one of giveBack and discard. */
export interface TakenSession {
  readonly session: SmtpSession;
  /** it had been open before */
  readonly reused: boolean;
  /** Puts a fresh connection in the place of one that turned out dead. */
  replace(): Promise<TakenSession>;
  giveBack(): void;
  discard(): void;
}

/** Keeps the SMTP connections of each account open for a while, so that one message after another pays one login. */
export interface SmtpConnectionPool {
  /** @throws MailError when none can be opened, or none becomes free in time */
  take(accountId: string, smtp: ServerLogin): Promise<TakenSession>;
  /** Ends what is kept for an account; what is being sent is sent. */
  drop(accountId: string): void;
  /** Ends every connection. */
  close(): Promise<void>;
}

export interface SmtpPoolOptions {
  open(smtp: ServerLogin): Promise<SmtpSession>;
  maxPerAccount: number;
  /** milliseconds after which a connection that nobody uses is ended */
  idleMs: number;
  /** messages that one connection may carry */
  maxMessages: number;
  /** milliseconds to wait for a connection that is in use */
  waitMs: number;
}

/** The connections of one account under one set of settings. */
interface Kept {
  smtp: ServerLogin;
  idle: { session: SmtpSession; timer: NodeJS.Timeout }[];
  /** connections in use or being opened */
  busy: number;
  /** how many the server lets us have */
  max: number;
  waiting: { resolve: (taken: TakenSession) => void; reject: (error: unknown) => void }[];
  /** other settings have taken its place */
  retired: boolean;
}

/** A pool without connections. */
export function createSmtpConnectionPool(options: SmtpPoolOptions): SmtpConnectionPool {
  const { maxPerAccount, idleMs, maxMessages, waitMs } = options;
  const accounts = new Map<string, Kept>();
  const sessions = new Set<SmtpSession>();
  let closed = false;

  const keptFor = (accountId: string, smtp: ServerLogin): Kept => {
    const known = accounts.get(accountId);
    if (known && isSame(known.smtp, smtp)) return known;
    if (known) retire(known);
    const kept: Kept = { smtp, idle: [], busy: 0, max: maxPerAccount, waiting: [], retired: false };
    accounts.set(accountId, kept);
    return kept;
  };

  const retire = (kept: Kept) => {
    kept.retired = true;
    for (const { session, timer } of kept.idle.splice(0)) {
      clearTimeout(timer);
      void session.quit();
    }
  };

  const open = async (kept: Kept): Promise<SmtpSession> => {
    const session = await options.open(kept.smtp);
    if (closed) {
      session.destroy();
      throw new MailError('provider_error', 'smtp', 'the service is ending');
    }
    sessions.add(session);
    session.onEnd(() => {
      sessions.delete(session);
      const at = kept.idle.findIndex((each) => each.session === session);
      for (const { timer } of at < 0 ? [] : kept.idle.splice(at, 1)) clearTimeout(timer);
    });
    return session;
  };

  const taken = (accountId: string, kept: Kept, session: SmtpSession, reused: boolean): TakenSession => ({
    session,
    reused,
    async replace() {
      session.destroy();
      try {
        return taken(accountId, kept, await open(kept), false);
      } catch (error) {
        release(accountId, kept);
        throw error;
      }
    },
    giveBack: () => {
      const waiting = kept.waiting[0];
      if (!session.usable || closed) session.destroy();
      else if (session.messages >= maxMessages || (kept.retired && !waiting)) void session.quit();
      else if (waiting) {
        kept.waiting.shift();
        return waiting.resolve(taken(accountId, kept, session, true));
      } else keepIdle(kept, session);
      release(accountId, kept);
    },
    discard: () => {
      session.destroy();
      release(accountId, kept);
    },
  });

  const keepIdle = (kept: Kept, session: SmtpSession) => {
    const timer = setTimeout(() => {
      kept.idle = kept.idle.filter((each) => each.session !== session);
      void session.quit();
    }, idleMs);
    kept.idle.push({ session, timer });
  };

  /** One connection is in use no more: the first who waits may open another. */
  const release = (accountId: string, kept: Kept) => {
    kept.busy--;
    if (kept.busy === 0) kept.max = maxPerAccount;
    const next = kept.busy < kept.max ? kept.waiting.shift() : undefined;
    if (next) openFor(accountId, kept).then(next.resolve, next.reject);
  };

  const openFor = async (accountId: string, kept: Kept): Promise<TakenSession> => {
    kept.busy++;
    try {
      return taken(accountId, kept, await open(kept), false);
    } catch (error) {
      const refused = error instanceof MailError && error.code === 'invalid_credentials';
      if (refused || kept.busy === 1) {
        // The others would fare no better, and some servers lock an account after a few refused logins.
        for (const { reject } of kept.waiting.splice(0)) reject(error);
        release(accountId, kept);
        throw error;
      }
      // The server may allow fewer connections: those that stand will do.
      kept.busy--;
      kept.max = kept.busy;
      return wait(kept, 'first');
    }
  };

  const wait = (kept: Kept, place: 'first' | 'last'): Promise<TakenSession> => {
    let timer: NodeJS.Timeout | undefined;
    return new Promise<TakenSession>((resolve, reject) => {
      const waiting = { resolve, reject };
      if (place === 'first') kept.waiting.unshift(waiting);
      else kept.waiting.push(waiting);
      timer = setTimeout(() => {
        kept.waiting = kept.waiting.filter((each) => each !== waiting);
        reject(new MailError('provider_error', 'smtp', 'all SMTP connections of this mailbox are busy'));
      }, waitMs);
    }).finally(() => clearTimeout(timer));
  };

  return {
    async take(accountId, smtp) {
      if (closed) throw new MailError('provider_error', 'smtp', 'the service is ending');
      const kept = keptFor(accountId, smtp);
      for (let last = kept.idle.pop(); last; last = kept.idle.pop()) {
        clearTimeout(last.timer);
        if (!last.session.usable) continue;
        kept.busy++;
        return taken(accountId, kept, last.session, true);
      }
      if (kept.busy < kept.max) return openFor(accountId, kept);
      return wait(kept, 'last');
    },
    drop(accountId) {
      const kept = accounts.get(accountId);
      accounts.delete(accountId);
      if (kept) retire(kept);
    },
    async close() {
      closed = true;
      const ending = [...accounts.values()].flatMap(({ idle }) =>
        idle.splice(0).map(({ session, timer }) => {
          clearTimeout(timer);
          return session.quit();
        }),
      );
      for (const { waiting } of accounts.values()) {
        const error = new MailError('provider_error', 'smtp', 'the service is ending');
        for (const { reject } of waiting.splice(0)) reject(error);
      }
      accounts.clear();
      await Promise.all(ending);
      for (const session of sessions) session.destroy();
    },
  };
}

function isSame(a: ServerLogin, b: ServerLogin): boolean {
  return (['host', 'port', 'user', 'password', 'encryption'] as const).every((name) => a[name] === b[name]);
}
