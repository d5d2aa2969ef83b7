import { isIP } from 'node:net';
import { ImapFlow, type ImapFlowError } from 'imapflow';
import { withDeadline } from '../async.ts';
import type { ServerLogin, TokenTimes } from '../contract/account.ts';
import { MailError, reasonOf } from '../mail-wire/mail-error.ts';
import { measured } from '../runtime/measure.ts';
import type { Outbound } from '../security/outbound.ts';
import { isTooLarge, loginErrorOf, mailErrorOf, TimedOut } from './errors.ts';
import { patchClient } from './imapflow-patches.ts';
import { MessageLimit } from './message-limit.ts';
import { createPacedTransport } from './paced-transport.ts';
import { type ResponseGuard, ResponseMeter } from './response-meter.ts';

export interface SessionOptions {
  outbound: Outbound;
  /** bytes of the largest literal that is read; a larger one closes the connection */
  maxLiteralBytes?: number;
  /** milliseconds for connect, TLS and login together */
  connectTimeoutMs?: number;
  /** milliseconds without a byte after which a missing response counts as lost */
  silenceMs?: number;
  /** milliseconds that the session stays open without a command, in addition to `silenceMs` (default 2 minutes) */
  idleMs?: number;
  /** milliseconds that no command may exceed, even if it names a higher limit */
  maxCommandMs?: number;
  /** responses allowed to the login, and to a command that names no limit */
  maxResponses?: number;
  /** closes the connection when aborted, also while it is being opened */
  signal?: AbortSignal;
}

/** The limits of one command. */
export interface CommandLimits {
  /** milliseconds, default 60 s */
  deadlineMs?: number;
  /** responses; default: 10,000, and two for each message of the selected folder */
  maxResponses?: number;
  /** milliseconds without a byte, for commands whose silence may be long */
  silenceMs?: number;
}

/**
 * Milliseconds for which a server may be silent while it works: at a SEARCH in a large folder of which it has no index, or the
 * deletion of a folder.
 */
export const LONGEST_SILENCE_MS = 120_000;

/** Responses about messages that one command may get: more than the messages of any folder in use. */
export const MAX_ROWS = 1_000_000;

/**
 * A row of metadata counts as up to three responses, with a literal for its header fields; one with long fields as more, see
 * response-meter.ts.
 */
const RESPONSES_PER_MESSAGE = 6;

/** The limits of a command that the server answers with a row, or a few, for each message of the selected folder. */
export function limitsPerMessage({ client }: ImapSession, deadlineMs: number): CommandLimits {
  const exists = (client.mailbox && client.mailbox.exists) || 0;
  return { deadlineMs, maxResponses: Math.min(RESPONSES_PER_MESSAGE * exists, MAX_ROWS) + 10_000 };
}

/** A logged-in IMAP connection and the settings that opened it. */
export interface ImapSession {
  readonly client: ImapFlow;
  has(capability: string): boolean;
  /** CONDSTORE is enabled: the server sends MODSEQ values. */
  readonly condstore: boolean;
  /** QRESYNC is enabled: the server reports expunged messages by UID. */
  readonly qresync: boolean;
  /**
   * Most messages that one command may name (MESSAGELIMIT, RFC 9738): announced, reported in a response, or observed.
   * Infinity: no limit is known.
   */
  readonly messageLimit: number;
  /** Notes that the server left out messages that a command named, after it had processed so many. */
  observeLimit(processed: number): void;
  /**
   * The most messages that one response has had, 20 at least: one with fewer is complete, since servers do not have limits
   * under 20, and do not lower them.
   */
  readonly shown: number;
  /** Notes how many messages a response had. */
  show(count: number): void;
  /**
   * Runs one command within limits. A command that is late or gets too many responses closes the connection.
   * @throws MailError for any failure; its detail names `command`
   */
  run<T>(command: string, work: () => Promise<T>, limits?: CommandLimits): Promise<T>;
  /** @throws MailError when the connection has ended, with the reason if it sent too much */
  assertOpen(): void;
  /** Runs `work` alone among all sessions of the account in one pool. */
  exclusive?: <T>(work: () => Promise<T>) => Promise<T>;
  /** the server stores what is appended byte for byte, under the given date: this was checked */
  keepsAppended?: boolean;
  /** paths of folders that were listed without counters when the connection was new */
  withoutCounters?: ReadonlySet<string>;
  /**
   * Replaces the connection with a new one, in which no folder is selected.
   * @throws MailError; the session is then unusable
   */
  renew(): Promise<void>;
  /** of the access token that it logged in with; undefined: it logged in with a password */
  readonly token?: TokenTimes;
  /** LOGOUT, then close; never throws. */
  end(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 20_000;
const COMMAND_TIMEOUT_MS = 60_000;
const LOGOUT_TIMEOUT_MS = 2_000;
const SILENCE_MS = 25_000;
const MiB = 1024 * 1024;

/** Far more than a login gets, or a command that is about no messages. */
const SOME_RESPONSES = 10_000;
/** Every message of a large folder is changed and removed by another program at one moment. */
const MAX_UNSOLICITED = 200_000;
/** imapflow may report that the connection ended, instead of why. */
const FLOOD = { code: 'TooManyResponses' };
/** The longest pause, ms, that a throttled command may wait for on its connection. imapflow waits before it rejects. */
const SHORT_PAUSE_MS = 10_000;

/**
 * Opens and logs in one connection, to a vetted address, with the certificate checked against the host's name.
 * @throws MailError invalid_credentials when the login was refused, else provider_error
 */
export async function openSession(login: ServerLogin, options: SessionOptions): Promise<ImapSession> {
  try {
    const session = sessionOf(await connect(login, options), login, options);
    measured('imapLogin', { outcome: 'accepted' });
    return session;
  } catch (error) {
    const isRefused = error instanceof MailError && error.code === 'invalid_credentials';
    measured('imapLogin', { outcome: isRefused ? 'refused' : 'failed' });
    throw error;
  }
}

/** A connection that is logged in. */
interface Connected {
  client: ImapFlow;
  guard: ResponseGuard;
}

/** Responses that a server may send until the next command, which no command asked for. */
function unsolicited({ mailbox }: ImapFlow): number {
  return Math.min(2 * ((mailbox && mailbox.exists) || 0), MAX_UNSOLICITED) + SOME_RESPONSES;
}

async function connect(login: ServerLogin, options: SessionOptions): Promise<Connected> {
  const addresses = await options.outbound.resolve(login.host).catch((cause: unknown) => {
    throw new MailError('provider_error', 'imap', `the IMAP host could not be reached: ${reasonOf(cause)}`, { cause });
  });
  const deadline = performance.now() + (options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
  let last: MailError | undefined;
  for (const { address } of addresses) {
    const guard = new ResponseMeter();
    guard.allow(options.maxResponses ?? SOME_RESPONSES);
    const client = newClient(login, address, { ...options, guard });
    if (options.signal) closeWhenAborted(client, options.signal);
    patchClient(client);
    try {
      await withDeadline(deadline - performance.now(), client.connect(), () => new TimedOut());
      guard.allow(unsolicited(client));
      return { client, guard };
    } catch (cause) {
      client.close();
      const error = loginErrorOf(causeOf(guard, cause), login, client.capabilities);
      if (error.code === 'invalid_credentials' || options.signal?.aborted) throw error;
      last = error;
      if (performance.now() >= deadline) break;
    }
  }
  throw last ?? new MailError('provider_error', 'imap', 'the IMAP host has no address');
}

const causeOf = (guard: ResponseGuard, cause: unknown) => (guard.exceeded ? FLOOD : (guard.throttled ?? cause));

function closeWhenAborted(client: ImapFlow, signal: AbortSignal): void {
  const close = () => client.close();
  signal.addEventListener('abort', close, { once: true });
  client.once('close', () => signal.removeEventListener('abort', close));
  if (signal.aborted) close();
}

function newClient(login: ServerLogin, address: string, options: SessionOptions & { guard: ResponseMeter }): ImapFlow {
  const maxLiteralSize = options.maxLiteralBytes ?? 64 * MiB;
  const logger = listener(({ err }) => {
    if (err?.code !== 'ETHROTTLE' || (err.throttleReset ?? 0) <= SHORT_PAUSE_MS) return;
    options.guard.throttled = err;
    client.close();
  });
  const client = new ImapFlow({
    host: address,
    port: login.port,
    ...(isIP(login.host) ? {} : { servername: login.host }),
    secure: login.encryption === 'SSL',
    doSTARTTLS: login.encryption === 'STARTTLS' ? true : login.encryption === 'NONE' ? false : undefined,
    auth: { user: login.user, ...(login.token ? { accessToken: login.password } : { pass: login.password }) },
    logger,
    disableAutoIdle: true,
    qresync: true,
    disableCompression: true,
    connectionTimeout: 15_000,
    greetingTimeout: 15_000,
    // Also counts between commands; during a command `untilSilent` watches for silence.
    socketTimeout: (options.silenceMs ?? SILENCE_MS) + (options.idleMs ?? LONGEST_SILENCE_MS),
    // Only the literals of messages are large, and the longest expected line has 50,000 UIDs (see searchUids), which
    // imapflow reads without tokens. A line is parsed in one go: 20,000 tokens take 0.1 s.
    maxLineLength: MiB,
    maxResponseTokens: 20_000,
    maxLiteralSize,
    maxResponseSize: maxLiteralSize + 2 * MiB,
    clientInfo: { name: 'email-mailbox-api' },
    tls: { minVersion: 'TLSv1.2' },
    transport: createPacedTransport(options.guard),
  });
  // Without a listener an 'error' after connect would end the process. Close the connection: it must not look usable when
  // imapflow hides the error from the caller of a command, as it does for NOOP.
  client.on('error', (error) => {
    options.guard.exceeded ||= isTooLarge(error);
    client.close();
  });
  return client;
}

/** A logger that drops all but warnings: the only sign of a throttled command before imapflow has waited. */
function listener(warn: (entry: { err?: ImapFlowError }) => void) {
  const drop = () => {};
  return { debug: drop, info: drop, warn, error: drop, fatal: drop, isLevelEnabled: () => false };
}

function sessionOf(connected: Connected, login: ServerLogin, options: SessionOptions): ImapSession {
  let { client, guard } = connected;
  let running = 0;
  const messageLimit = new MessageLimit();
  messageLimit.follow(client);
  const { maxCommandMs = Infinity, silenceMs: usualSilenceMs = SILENCE_MS } = options;
  const giveUp = () => {
    client.close();
    return new TimedOut();
  };
  return {
    get client() {
      return client;
    },
    has: (capability) => client.capabilities.has(capability),
    get condstore() {
      return client.enabled.has('CONDSTORE');
    },
    get qresync() {
      return client.enabled.has('QRESYNC');
    },
    get messageLimit() {
      return messageLimit.of(client);
    },
    observeLimit: (processed) => messageLimit.observe(processed),
    get shown() {
      return messageLimit.shown;
    },
    show: (count) => messageLimit.show(count),
    async run(command, work, limits = {}) {
      const { deadlineMs = COMMAND_TIMEOUT_MS, silenceMs = usualSilenceMs } = limits;
      const allowed = limits.maxResponses ?? options.maxResponses ?? unsolicited(client);
      // a batch is fetched while others are saved: the limit of one command does not cut another short
      guard.allow(running > 0 ? Math.max(guard.left, allowed) : allowed);
      running += 1;
      try {
        assertUsable(client);
        const active = untilSilent(client, Math.max(silenceMs, usualSilenceMs), work(), giveUp);
        const result = await withDeadline(Math.min(deadlineMs, maxCommandMs), active, giveUp);
        assertUsable(client);
        return result;
      } catch (cause) {
        throw mailErrorOf(causeOf(guard, cause), login, command);
      } finally {
        running -= 1;
        if (running === 0) guard.allow(unsolicited(client));
      }
    },
    assertOpen() {
      if (guard.exceeded) throw mailErrorOf(FLOOD, login, 'IDLE');
      if (!client.usable) throw new MailError('provider_error', 'imap', 'the connection was closed');
    },
    async renew() {
      await logOut(client);
      ({ client, guard } = await connect(login, options));
      messageLimit.follow(client);
    },
    ...(login.token ? { token: login.token } : {}),
    end: () => logOut(client),
  };
}

async function logOut(client: ImapFlow): Promise<void> {
  try {
    if (client.usable) await withDeadline(LOGOUT_TIMEOUT_MS, client.logout(), () => new TimedOut());
  } catch {
    // The server may be unreachable; close anyway.
  } finally {
    client.close();
  }
}

/** On a closed connection imapflow returns nothing for many commands, which must not look like an empty folder. */
function assertUsable(client: ImapFlow): void {
  // After a BYE imapflow considers the connection usable until the server hangs up.
  if (!client.usable || client.state === client.states.LOGOUT)
    throw Object.assign(new Error('the connection is closed'), { code: 'NoConnection' });
}

/** How often the received bytes are compared before the server counts as silent. */
const CHECKS = 10;

/**
 * The result of `work`; rejects with the error of `onSilent` when the server sends nothing for `ms` milliseconds.
 * imapflow's own time-out treats an IDLE that the server never confirmed as a quiet one and restarts it endlessly, which
 * would hide a peer that died at that moment.
 */
async function untilSilent<T>(client: ImapFlow, ms: number, work: Promise<T>, onSilent: () => Error): Promise<T> {
  let interval: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_, reject) => {
    let received = client.stats().received;
    let quiet = 0;
    // Checks are counted, not time: while our event loop is busy, received bytes wait to be read.
    interval = setInterval(() => {
      const now = client.stats().received;
      quiet = now === received ? quiet + 1 : 0;
      received = now;
      if (quiet >= CHECKS) reject(onSilent());
    }, ms / CHECKS);
  });
  try {
    return await Promise.race([work, silent]);
  } finally {
    clearInterval(interval);
    work.catch(() => {});
  }
}
