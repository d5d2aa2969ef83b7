import { isIP } from 'node:net';
import { ImapFlow, type ImapFlowError } from 'imapflow';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, reasonOf, safeAnswer } from '../mail-error.ts';
import type { Outbound } from '../outbound.ts';
import { type Guard, guardClient } from './imapflow-patches.ts';

export interface SessionOptions {
  outbound: Outbound;
  /** bytes of one literal that are taken in; a server that announces more ends the connection */
  maxLiteralBytes?: number;
  /** milliseconds for connect, TLS and login together */
  connectTimeoutMs?: number;
  /** milliseconds without a byte after which a server that owes an answer is given up */
  silenceMs?: number;
  /** milliseconds for which the session is kept without a step, beside those of silence */
  idleMs?: number;
  /** milliseconds that no step may exceed, whatever it asks for */
  maxCommandMs?: number;
  /** answers that the login, and a step that names no limit of its own, may get */
  maxResponses?: number;
  /** closes the connection when aborted, also while it is being opened */
  signal?: AbortSignal;
}

/** A logged-in IMAP connection and the settings that opened it. */
export interface ImapSession {
  readonly client: ImapFlow;
  has(capability: string): boolean;
  /** CONDSTORE is enabled: MODSEQ values are given. */
  readonly condstore: boolean;
  /** QRESYNC is enabled: expunged mail is told by UID. */
  readonly qresync: boolean;
  /**
   * Runs one step with a deadline in milliseconds and a limit on the answers that it may get; any failure becomes a
   * MailError, and one that is late or gets too much ends the connection. `silenceMs` is for a step in which the server
   * is silent by right for longer than usual.
   */
  run<T>(
    what: string,
    work: () => Promise<T>,
    deadlineMs?: number,
    maxAnswers?: number,
    silenceMs?: number,
  ): Promise<T>;
  /** Runs such works one at a time among all sessions of the account that one pool gives out. */
  exclusive?: <T>(work: () => Promise<T>) => Promise<T>;
  /** LOGOUT, then close; never throws. */
  end(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 20_000;
const STEP_TIMEOUT_MS = 60_000;
const SILENCE_MS = 25_000;
const MiB = 1024 * 1024;

/** Room for 100,000 folders, each with its counters and its subscription. */
const MAX_ANSWERS = 300_000;

/**
 * Opens and logs in one connection, to a vetted address, with the certificate checked against the host's name.
 * @throws MailError invalid_credentials when the login was refused, provider_error for all else
 */
export async function openSession(settings: ServerLogin, options: SessionOptions): Promise<ImapSession> {
  const addresses = await options.outbound.resolve(settings.host).catch((cause: unknown) => {
    throw new MailError('provider_error', 'imap', `the IMAP host could not be reached: ${reasonOf(cause)}`, { cause });
  });
  const deadline = Date.now() + (options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
  let last: MailError | undefined;
  for (const { address } of addresses) {
    const client = newClient(settings, address, options);
    if (options.signal) closeWhenAborted(client, options.signal);
    const guard = guardClient(client);
    guard.allow(options.maxResponses ?? MAX_ANSWERS);
    try {
      await within(deadline - Date.now(), client.connect(), () => client.close());
      guard.allow(Infinity);
      return wrap(client, guard, settings, options);
    } catch (cause) {
      client.close();
      const error = mailErrorOf(cause, settings, 'the IMAP login');
      if (error.code === 'invalid_credentials' || options.signal?.aborted) throw error;
      last = error;
      if (Date.now() >= deadline) break;
    }
  }
  throw last ?? new MailError('provider_error', 'imap', 'the IMAP host has no address');
}

function closeWhenAborted(client: ImapFlow, signal: AbortSignal): void {
  const close = () => client.close();
  signal.addEventListener('abort', close, { once: true });
  client.once('close', () => signal.removeEventListener('abort', close));
  if (signal.aborted) close();
}

function newClient(settings: ServerLogin, address: string, options: SessionOptions): ImapFlow {
  const maxLiteralSize = options.maxLiteralBytes ?? 64 * MiB;
  const client = new ImapFlow({
    host: address,
    port: settings.port,
    ...(isIP(settings.host) ? {} : { servername: settings.host }),
    secure: settings.encryption === 'SSL',
    doSTARTTLS: settings.encryption === 'STARTTLS' ? true : settings.encryption === 'NONE' ? false : undefined,
    auth: { user: settings.user, pass: settings.password },
    logger: false,
    disableAutoIdle: true,
    qresync: true,
    disableCompression: true,
    connectionTimeout: 15_000,
    greetingTimeout: 15_000,
    // Counts while nothing is asked for, too; in a step, `silenceMs` is looked after there.
    socketTimeout: (options.silenceMs ?? SILENCE_MS) + (options.idleMs ?? 0),
    // Nothing but a literal of a mail is large. A line is parsed in one go, at a third of a second and 100 MB for each MiB
    // of small tokens; the longest that is asked for has 50,000 UIDs (see searchUids).
    maxLineLength: MiB,
    maxLiteralSize,
    maxResponseSize: maxLiteralSize + 2 * MiB,
    clientInfo: { name: 'email-mailbox-api' },
    tls: { minVersion: 'TLSv1.2' },
  });
  // Without a listener an 'error' after connect would end the process; the failed step tells it all.
  client.on('error', () => {});
  return client;
}

function wrap(client: ImapFlow, guard: Guard, settings: ServerLogin, options: SessionOptions): ImapSession {
  const {
    maxCommandMs: maxStepMs = Infinity,
    silenceMs = SILENCE_MS,
    maxResponses: usualAnswers = MAX_ANSWERS,
  } = options;
  return {
    client,
    has: (capability) => client.capabilities.has(capability),
    get condstore() {
      return client.enabled.has('CONDSTORE');
    },
    get qresync() {
      return client.enabled.has('QRESYNC');
    },
    async run(what, work, deadlineMs = STEP_TIMEOUT_MS, maxAnswers = usualAnswers, quietMs = silenceMs) {
      guard.allow(maxAnswers);
      try {
        assertUsable(client);
        const silence = { ms: Math.max(quietMs, silenceMs), bytes: () => client.stats().received };
        const answer = await within(Math.min(deadlineMs, maxStepMs), work(), () => client.close(), silence);
        assertUsable(client);
        return answer;
      } catch (cause) {
        throw mailErrorOf(guard.exceeded ? { code: 'TooManyAnswers' } : cause, settings, what);
      } finally {
        guard.allow(Infinity);
      }
    },
    async end() {
      try {
        if (client.usable) await within(2_000, client.logout(), () => {});
      } catch {
        // the server may well be gone; closing is all that is left
      } finally {
        client.close();
      }
    },
  };
}

/** On a closed connection imapflow answers many commands with nothing, which must not pass for an empty folder. */
function assertUsable(client: ImapFlow): void {
  // After a BYE it counts as usable until the server hangs up.
  if (!client.usable || client.state === client.states.LOGOUT)
    throw Object.assign(new Error('the connection is closed'), { code: 'NoConnection' });
}

/** Awaits `work` for at most `ms`; then runs `giveUp` and fails. */
async function within<T>(ms: number, work: Promise<T>, giveUp: () => void, silence?: Silence): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let listening: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const end = () => {
      giveUp();
      reject(new Deadline());
    };
    timer = setTimeout(end, Math.max(1, ms));
    if (silence) listening = whenSilent(silence, end);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    clearInterval(listening);
    work.catch(() => {});
  }
}

/** How long a server may send nothing while it owes an answer. */
interface Silence {
  ms: number;
  /** bytes received so far */
  bytes(): number;
}

/**
 * imapflow's own time-out takes an IDLE that the server never confirmed for one that is quiet by right, and asks again
 * for ever: a peer that died just then would not be noticed.
 */
function whenSilent({ ms, bytes }: Silence, end: () => void): NodeJS.Timeout {
  let heard = bytes();
  let quiet = 0;
  // Looks are counted, not time: while our own event loop is busy, what the server sent waits to be read.
  return setInterval(() => {
    const now = bytes();
    quiet = now === heard ? quiet + 1 : 0;
    heard = now;
    if (quiet >= LOOKS) end();
  }, ms / LOOKS);
}

const LOOKS = 10;

/** Told as what it is by reasonOf. */
class Deadline extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Response codes of RFC 5530 that say "not now" though they answer a login. */
const BUSY_CODES = new Set(['UNAVAILABLE', 'INUSE', 'LIMIT', 'SERVERBUG', 'CONTACTADMIN', 'ALERT']);
/** The same of servers that give no code. */
const SAYS_BUSY = /too many|maximum number of|connection limit/i;

/** Maps whatever imapflow, TLS or the socket threw to the one error that callers know. */
export function mailErrorOf(cause: unknown, settings: ServerLogin, what: string): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as Partial<ImapFlowError> & {
    authenticationFailed?: boolean;
    serverResponseCode?: string;
  };
  const answer = safeAnswer(error.responseText, [settings.password, settings.user]);
  const busy = BUSY_CODES.has(error.serverResponseCode ?? '') || SAYS_BUSY.test(answer);
  if (error.authenticationFailed && error.responseStatus === 'NO' && !busy) {
    const detail = answer ? `the IMAP server refused the login: ${answer}` : 'the IMAP server refused the login';
    return new MailError('invalid_credentials', 'imap', detail, { cause });
  }
  if (error.responseStatus === 'NO' || error.responseStatus === 'BAD') {
    const detail = `the IMAP server refused ${what}: ${answer || error.responseStatus}`;
    return new MailError('provider_error', 'imap', detail, { cause, refused: true });
  }
  return new MailError('provider_error', 'imap', `${what} failed: ${reasonOf(cause)}`, { cause });
}
