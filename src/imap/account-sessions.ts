import { createLimiter } from '../async.ts';
import { MailError } from '../mail-error.ts';
import { refusalCode } from './response-codes.ts';
import type { ImapSession } from './session.ts';
import type { ServerLogin } from '../contract/account.ts';

/** A session that is open: in use ⇄ idle → ended. */
export interface KeptSession {
  session: ImapSession;
  /** the settings that opened it */
  key: string;
  idleSince: number;
  idleTimer?: NodeJS.Timeout;
  /** the work before failed: what the session is in the middle of is not known */
  doubtful: boolean;
}

interface Limits {
  max: number;
  idleMs: number;
  waitMs: number;
  probeAfterMs: number;
}

interface Surroundings {
  open(imap: ServerLogin): Promise<ImapSession>;
  /** no session is left, and nobody waits for one */
  onEmpty(): void;
}

const PROBE_TIMEOUT_MS = 5_000;
/** How long a provider's refusal of one more session is believed. */
const BELIEVED_MS = 60_000;

/**
 * The sessions of one account. Whoever holds one of `limit` places may use an idle session or, where there is none, open
 * one; places are given in the order in which they were asked for.
 */
export class AccountSessions {
  private readonly limits: Limits;
  private readonly surroundings: Surroundings;
  private idle: KeptSession[] = [];
  private waiting: (() => void)[] = [];
  private held = 0;
  /** the provider refused more sessions than this, until then */
  private refused = { limit: Infinity, until: 0 };
  private dropped = false;
  private readonly alone = createLimiter(1);

  constructor(limits: Limits, surroundings: Surroundings) {
    this.limits = limits;
    this.surroundings = surroundings;
  }

  /** @throws MailError */
  async take(imap: ServerLogin): Promise<KeptSession> {
    const key = keyOf(imap);
    const deadline = Date.now() + this.limits.waitMs;
    await this.place(deadline, 'last');
    try {
      for (;;) {
        const kept = (await this.takeIdle(key)) ?? (await this.open(imap, key));
        if (kept) return kept;
        this.held -= 1;
        this.refused = { limit: Math.max(1, this.held), until: Date.now() + BELIEVED_MS };
        await this.place(deadline, 'first');
      }
    } catch (error) {
      if (!(error instanceof NoPlace)) this.leave();
      throw error;
    }
  }

  /** @param clean the work left the session in order; else it is tried out before it is used again */
  giveBack(kept: KeptSession, clean: boolean): void {
    const { session } = kept;
    if (!isOpen(session) || this.dropped) {
      void session.end();
      return this.leave();
    }
    kept.doubtful = !clean;
    kept.idleSince = Date.now();
    kept.idleTimer = setTimeout(() => this.end(kept), this.limits.idleMs).unref();
    this.idle.push(kept);
    this.leave();
  }

  async drop(): Promise<void> {
    this.dropped = true;
    await Promise.all(this.idle.splice(0).map((kept) => finish(kept)));
  }

  /** Waits for a place; one that lost its place to the provider's limit waits in front of all others. */
  private place(deadline: number, order: 'first' | 'last'): Promise<void> {
    if (this.held < this.limit && this.waiting.length === 0) {
      this.held += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = () => {
        clearTimeout(timer);
        this.held += 1;
        resolve();
      };
      const giveUp = () => {
        this.waiting = this.waiting.filter((each) => each !== enter);
        reject(new NoPlace());
      };
      const timer = setTimeout(giveUp, Math.max(0, deadline - Date.now()));
      if (order === 'first') this.waiting.unshift(enter);
      else this.waiting.push(enter);
    });
  }

  private leave(): void {
    this.held -= 1;
    while (this.held < this.limit && this.waiting.length > 0) this.waiting.shift()?.();
    this.tellWhenEmpty();
  }

  private get limit(): number {
    const { limit, until } = this.refused;
    return Date.now() < until ? Math.min(limit, this.limits.max) : this.limits.max;
  }

  /** The session that was used last, if it still works; those of other settings are ended. */
  private async takeIdle(key: string): Promise<KeptSession | undefined> {
    for (let kept = this.idle.pop(); kept; kept = this.idle.pop()) {
      clearTimeout(kept.idleTimer);
      if (kept.key === key && (await this.works(kept))) return kept;
      await finish(kept);
    }
    return undefined;
  }

  private async works({ session, doubtful, idleSince }: KeptSession): Promise<boolean> {
    if (!isOpen(session)) return false;
    if (!doubtful && Date.now() - idleSince < this.limits.probeAfterMs) return true;
    try {
      await session.run('NOOP', () => session.client.noop(), PROBE_TIMEOUT_MS);
      return true;
    } catch {
      return false;
    }
  }

  /** Undefined when the provider wants no more sessions than there are. */
  private async open(imap: ServerLogin, key: string): Promise<KeptSession | undefined> {
    try {
      const session = await this.surroundings.open(imap);
      session.exclusive = this.alone;
      return { session, key, idleSince: 0, doubtful: false };
    } catch (error) {
      if (this.held > 1 && isLimit(error)) return undefined;
      throw error;
    }
  }

  private end(kept: KeptSession): void {
    this.idle = this.idle.filter((each) => each !== kept);
    void finish(kept);
    this.tellWhenEmpty();
  }

  private tellWhenEmpty(): void {
    if (this.held === 0 && this.idle.length === 0 && this.waiting.length === 0) this.surroundings.onEmpty();
  }
}

class NoPlace extends MailError {
  constructor() {
    super('provider_error', 'imap', 'too many connections in use');
  }
}

/** A server that has said BYE has still to hang up. */
function isOpen({ client }: ImapSession): boolean {
  return client.usable && client.state !== client.states.LOGOUT;
}

async function finish(kept: KeptSession): Promise<void> {
  clearTimeout(kept.idleTimer);
  await kept.session.end();
}

function keyOf({ host, port, user, password, encryption }: ServerLogin): string {
  return JSON.stringify([host, port, user, password, encryption]);
}

/** RFC 5530, and what Gmail has in their place. */
const LIMIT_CODES = new Set(['LIMIT', 'UNAVAILABLE', 'INUSE', 'ALERT']);
const SAYS_LIMIT = /too many|maximum number of|connection limit/i;

function isLimit(error: unknown): boolean {
  if (!(error instanceof MailError)) return false;
  // Some hang up instead of refusing the login, and say why in the BYE.
  const { reason = '' } = (error.cause ?? {}) as { reason?: string };
  return LIMIT_CODES.has(refusalCode(error) ?? '') || SAYS_LIMIT.test(`${error.detail} ${reason}`);
}
