import { domainToASCII } from 'node:url';
import { MailError } from '../mail-wire/mail-error.ts';
import { type Measurements, measured } from '../runtime/measure.ts';
import type { Outbound } from '../security/outbound.ts';
import {
  endsAtRecipients,
  everyRecipientRefused,
  isStale,
  leavesConnection,
  SendFailed,
  SubmitError,
  submitErrorOf,
} from './errors.ts';
import { LOGIN_TIMEOUT_MS, openSmtp } from './login.ts';
import type { Lease } from '../mail-wire/connection-pool.ts';
import type { ServerLogin } from '../contract/account.ts';
import { createSmtpPool } from './pool.ts';
import {
  type Accepted,
  type Envelope,
  type Submission,
  type SmtpSession,
  smtpSession,
  type SmtpTimes,
} from './session.ts';

export { SubmitError, type SubmitOutcome } from './errors.ts';
export type { Envelope, Submission as OutgoingMessage } from './session.ts';

/** How a server accepted a message, with the refused recipients in the caller's spelling. */
export type Submitted = Accepted;

/** Submits messages to the SMTP servers of accounts. */
export interface Submitter {
  /**
   * Submits one message, on a connection that stays open for the account's next one. `beforeData` runs after the server's
   * 354 and before the first byte of the message, once at most. If it throws, nothing is sent and `submit` throws the
   * same error. It has settled before `submit` rejects.
   * @throws SubmitError with the outcome; temporary where a later attempt may do better, never when it is unknown
   */
  submit(accountId: string, smtp: ServerLogin, message: Submission): Promise<Submitted>;
  /** Ends the open connections of an account. */
  drop(accountId: string): Promise<void>;
  /** Closes all connections; messages being sent fail. */
  close(): Promise<void>;
}

export interface SubmitterOptions {
  outbound: Outbound;
  /** connections per account; the next message waits for one */
  maxPerAccount?: number;
  /** milliseconds after which an unused connection is closed */
  idleMs?: number;
  /** messages that one connection may carry */
  maxMessages?: number;
  /** milliseconds for name look-up, connect, TLS and login together */
  loginTimeoutMs?: number;
  /** milliseconds to wait for one of the account's connections to become free */
  waitMs?: number;
  times?: Partial<SmtpTimes>;
}

/** A submitter without connections. */
export function createSubmitter(options: SubmitterOptions): Submitter {
  const { outbound, loginTimeoutMs: timeoutMs = LOGIN_TIMEOUT_MS } = options;
  const pool = createSmtpPool({
    open: async (smtp) => smtpSession(await openSmtp(smtp, { outbound, timeoutMs }), options.times),
    maxPerAccount: options.maxPerAccount ?? 3,
    idleMs: options.idleMs ?? 20_000,
    maxMessages: options.maxMessages ?? 100,
    waitMs: options.waitMs ?? 30_000,
  });
  return {
    async submit(accountId, smtp, message) {
      const given = new Map(message.envelope.to.map((address) => [asciiDomain(address), address]));
      const envelope = { ...message.envelope, from: asciiDomain(message.envelope.from), to: [...given.keys()] };
      const { rejected, ...accepted } = await pool
        .take(accountId, smtp)
        .catch(notSent)
        .then((lease) => sendOver(lease, { ...message, envelope }, smtp))
        .catch((error: unknown) => {
          measured('smtpSubmission', { outcome: outcomeOf(error) });
          throw error;
        });
      measured('smtpSubmission', { outcome: 'accepted' });
      return { ...accepted, rejected: rejected.map((address) => given.get(address) ?? address) };
    },
    drop: (accountId) => pool.drop(accountId),
    close: () => pool.close(),
  };
}

function outcomeOf(error: unknown): Measurements['smtpSubmission']['outcome'] {
  if (!(error instanceof SubmitError)) return 'failed';
  if (error.outcome === 'unknown') return 'unknown';
  if (error.code === 'provider_rejected') return 'rejected';
  return error.code === 'invalid_credentials' ? 'refused_login' : 'failed';
}

/** `earlier`: the replies to recipients that were refused on connections before. */
async function sendOver(
  lease: Lease<SmtpSession>,
  message: Submission,
  smtp: ServerLogin,
  earlier: readonly string[] = [],
): Promise<Accepted> {
  const { connection: session, reused } = lease;
  try {
    assertAccepted(session, message);
    const accepted = await session.send(message);
    lease.giveBack();
    return accepted;
  } catch (error) {
    if (error instanceof SubmitError) {
      lease.giveBack();
      throw error;
    }
    if (!(error instanceof SendFailed)) {
      lease.discard();
      throw error;
    }
    if (endsAtRecipients(error)) return sendToOthers(lease, message, smtp, { refused: error.refused, earlier });
    if (reused && isStale(error)) return sendOver(await lease.replace().catch(notSent), message, smtp, earlier);
    if (leavesConnection(error)) {
      // The caller does not wait for it.
      session.reset().then(() => lease.giveBack(), lease.discard);
    } else lease.discard();
    throw submitErrorOf(error, smtp, earlier);
  }
}

/** Submits a message to the recipients that were not refused, on a new connection. */
async function sendToOthers(
  lease: Lease<SmtpSession>,
  message: Submission,
  smtp: ServerLogin,
  { refused, earlier }: { refused: ReadonlyMap<string, string>; earlier: readonly string[] },
): Promise<Accepted> {
  const replies = [...earlier, ...refused.values()];
  const to = message.envelope.to.filter((address) => !refused.has(address));
  if (to.length === 0) {
    lease.discard();
    throw everyRecipientRefused(replies, smtp);
  }
  const others = { ...message, envelope: { ...message.envelope, to } };
  const accepted = await sendOver(await lease.replace().catch(notSent), others, smtp, replies);
  return { ...accepted, rejected: [...refused.keys(), ...accepted.rejected] };
}

const BEYOND_ASCII = /[\u0080-\uffff]/;

/** Refuses a message that the server has announced not to accept. */
function assertAccepted({ maxSize, smtpUtf8 }: SmtpSession, { envelope, source }: Submission): void {
  if (maxSize && source.length > maxSize) {
    const detail = `the message has ${source.length} bytes, larger than the ${maxSize} bytes that the server accepts`;
    throw new SubmitError('not_sent', 'provider_rejected', detail);
  }
  const inEnvelope = fieldBeyondAscii(envelope);
  if (smtpUtf8 && inEnvelope) return;
  const field = envelope.needsUtf8 ?? inEnvelope;
  if (field) {
    const reason = smtpUtf8
      ? 'SMTPUTF8 is announced for the sender and recipients only'
      : 'the SMTP server accepts ASCII addresses only (it offers no SMTPUTF8)';
    const detail = `${reason}, and ${field} has other characters before its @`;
    throw new SubmitError('not_sent', 'provider_rejected', detail);
  }
}

function fieldBeyondAscii({ from, to }: Envelope): string | undefined {
  if (BEYOND_ASCII.test(from)) return 'the sender';
  return to.some((address) => BEYOND_ASCII.test(address)) ? 'a recipient' : undefined;
}

/** A domain needs no SMTPUTF8: it has a form in ASCII (RFC 5890), which every server knows, where the local part is ASCII. */
function asciiDomain(address: string): string {
  const at = address.lastIndexOf('@');
  if (!BEYOND_ASCII.test(address) || BEYOND_ASCII.test(address.slice(0, at))) return address;
  const domain = domainToASCII(address.slice(at + 1));
  return domain ? `${address.slice(0, at)}@${domain}` : address;
}

function notSent(error: unknown): never {
  if (!(error instanceof MailError)) throw error;
  const { code, detail, temporary, refused } = error;
  throw new SubmitError('not_sent', code, detail, { temporary, refused, cause: error.cause ?? error });
}
