import { isAscii } from 'node:buffer';
import type { Socket } from 'node:net';
import type SMTPConnection from 'nodemailer/lib/smtp-connection';
import { Ended, isRefusal, SendFailed, type SendStage } from './errors.ts';
import { quitSmtp } from './login.ts';
import { SmtpMessage } from './message.ts';
import { readReplies } from './replies.ts';

/** The sender and recipients of a message in SMTP; each address once, without a name. */
export interface Envelope {
  from: string;
  to: string[];
  /** the field of the first address, also in a header, whose local part is not ASCII (RFC 6531): `to.0.email` */
  needsUtf8?: string;
}

export interface Submission {
  envelope: Envelope;
  source: Buffer;
  /** runs after the server's 354 and before the first byte of the message; if it fails, nothing is sent */
  beforeData: () => Promise<void>;
}

/** How a server accepted a message. */
export interface Accepted {
  /** recipients that it refused while it accepted the message for others */
  rejected: string[];
  /** the Message-ID that it gave the message in place of that in its header, as far as its reply says so */
  messageId?: string;
}

/** A logged-in SMTP connection that carries one message after another. */
export interface SmtpSession {
  /** bytes of the largest message that the server accepts (RFC 1870); 0: unknown */
  readonly maxSize: number;
  /** addresses may hold more than ASCII (RFC 6531) */
  readonly smtpUtf8: boolean;
  readonly usable: boolean;
  /** messages attempted so far */
  readonly messages: number;
  /**
   * Submits one message.
   * @throws SendFailed when the server did not accept it; what `beforeData` threw, unchanged
   */
  send(message: Submission): Promise<Accepted>;
  /** RSET: ends a transaction that was refused. */
  reset(): Promise<void>;
  /** calls back once, when the connection has ended */
  onEnd(listener: () => void): void;
  quit(): Promise<void>;
  destroy(): void;
}

/** Milliseconds that a server may take. */
export interface SmtpTimes {
  /** silence of a server that owes a reply to MAIL, RCPT or DATA */
  reply: number;
  /** silence before the first reply on a connection that was idle, which shows that it is dead */
  firstReply: number;
  /** nothing of the message could be written */
  stall: number;
  /** the reply to the end of a small message */
  final: number;
}

/**
 * RFC 5321, 4.5.3.2 would wait 5 minutes for most of them; here an API caller waits, and what was not accepted can be sent again.
 * After the end of the message only the server knows whether it was: it has the 10 minutes of 4.5.3.2.6. The caller gets its
 * response before.
 */
const TIMES: SmtpTimes = { reply: 15_000, firstReply: 5_000, stall: 30_000, final: 600_000 };
/** What each recipient adds, ms: a server without PIPELINING answers for one after the other. */
const RECIPIENT_MS = 500;
const MiB = 1024 * 1024;

/** Total milliseconds for each stage of sending a message, independent of the server's activity. */
function limitsOf({ source, envelope }: Submission, times: SmtpTimes) {
  const mebibytes = Math.ceil(source.length / MiB);
  return {
    envelope: 2 * times.reply + RECIPIENT_MS * envelope.to.length,
    // 64 KiB a second
    data: 2 * times.stall + 16_000 * mebibytes,
    final: times.final + 1_000 * mebibytes,
  };
}

/** What nodemailer stores of the reply to EHLO, in private fields. */
interface Announced {
  _maxAllowedSize: number;
  _supportedExtensions: string[];
}

/** The session on a connection of openSmtp, which belongs to it from now on. */
export function smtpSession(connection: SMTPConnection, given: Partial<SmtpTimes> = {}): SmtpSession {
  const times = { ...TIMES, ...given };
  const socket = connection._socket as Socket;
  const { _maxAllowedSize: maxSize, _supportedExtensions: extensions } = connection as unknown as Announced;
  let messages = 0;
  socket.setTimeout(0);
  return {
    maxSize,
    smtpUtf8: extensions.includes('SMTPUTF8'),
    get usable() {
      return !connection.destroyed && socket.writable;
    },
    get messages() {
      return messages;
    },
    send(message) {
      const firstReply = messages++ === 0 ? times.reply : times.firstReply;
      return sendOn(connection, message, { ...times, firstReply });
    },
    async reset() {
      await attempt<void>(connection, (settle) => {
        socket.setTimeout(times.reply);
        connection.reset((error) => settle(error));
      }).finally(() => socket.setTimeout(0));
    },
    onEnd: (listener) => void connection.once('end', listener),
    quit: () => quitSmtp(connection),
    destroy: () => connection.close(),
  };
}

interface Progress {
  stage: SendStage;
  /** beforeData, once it runs */
  begun: Promise<void>;
  /** the error that it threw */
  stopped?: { reason: unknown };
  over?: boolean;
}

async function sendOn(connection: SMTPConnection, message: Submission, times: SmtpTimes): Promise<Accepted> {
  const socket = connection._socket as Socket;
  const { envelope, source, beforeData } = message;
  const limits = limitsOf(message, times);
  const progress: Progress = { stage: 'envelope', begun: Promise.resolve() };
  let timer: NodeJS.Timeout | undefined;
  let giveUp: (error: Error) => void = () => {};
  const allow = (totalMs: number, silenceMs: number) => {
    if (progress.over) return;
    clearTimeout(timer);
    timer = setTimeout(() => giveUp(new Ended('ETIMEDOUT')), totalMs);
    socket.setTimeout(silenceMs);
  };
  const onReply = () => socket.setTimeout(times.reply);
  const replies = readReplies(socket);
  const steps = new SmtpMessage({
    source,
    socket,
    begin: async () => {
      progress.stage = 'data';
      // beforeData is not bound by the server's limits.
      clearTimeout(timer);
      socket.setTimeout(0);
      progress.begun = (async () => beforeData())();
      await progress.begun.catch((reason: unknown) => {
        progress.stopped = { reason };
        throw new Error('stopped before the message');
      });
      allow(limits.data, times.stall);
    },
    end: () => {
      progress.stage = 'final_dot';
      allow(limits.final, 0);
    },
  });
  try {
    const info = await attempt<SMTPConnection.SentMessageInfo>(connection, (settle) => {
      giveUp = settle;
      allow(limits.envelope, times.firstReply);
      socket.once('data', onReply);
      const size = source.length;
      const use8BitMime = !isAscii(source);
      connection.send({ from: envelope.from, to: envelope.to, size, use8BitMime }, steps, settle);
    });
    // A reply before the end is not a reply to the message.
    if (progress.stage !== 'final_dot') throw new Ended('EPROTOCOL');
    return acceptedOf(info);
  } catch (cause) {
    if (progress.stage === 'data' || !isRefusal(cause)) connection.close();
    const { stage } = progress;
    // It must have ended before the failure is reported.
    await progress.begun.catch(() => {});
    if (progress.stopped) throw progress.stopped.reason;
    throw new SendFailed(stage, cause, stage === 'envelope' ? refusedIn(envelope.to, replies.lines) : undefined);
  } finally {
    progress.over = true;
    clearTimeout(timer);
    steps.destroy();
    replies.stop();
    socket.removeListener('data', onReply);
    socket.setTimeout(0);
  }
}

/** As far as a message may have it (RFC 5322 2.1.1): a reply may be longer. */
const MESSAGE_ID = /^<[\x21-\x7e]{1,996}>$/;

function acceptedOf({ rejected, serverMessageId: messageId = '' }: SMTPConnection.SentMessageInfo): Accepted {
  return { rejected, ...(MESSAGE_ID.test(messageId) ? { messageId } : {}) };
}

/**
 * Recipients that were refused, with the replies; 421 is about the connection. The first reply is that to MAIL: without a sender
 * every recipient is refused.
 */
function refusedIn(recipients: readonly string[], [mail, ...replies]: readonly string[]): Map<string, string> {
  if (!mail?.startsWith('2')) return new Map();
  return new Map(
    recipients.flatMap((address, index) => {
      const reply = replies[index];
      return reply && /^(?!421)[45]/.test(reply) ? [[address, reply] as const] : [];
    }),
  );
}

/** Runs one exchange of nodemailer's; also fails when the connection ends without a reply. */
async function attempt<T>(
  connection: SMTPConnection,
  run: (settle: (error?: Error | null, value?: T) => void) => void,
): Promise<T> {
  let failed: (error: Error) => void = () => {};
  // nodemailer may report the end first, and the reason after it
  const ended = () => void setImmediate(failed, new Ended('ECONNECTION'));
  try {
    return await new Promise<T>((resolve, reject) => {
      failed = reject;
      connection.on('error', failed).on('end', ended);
      run((error, value) => (error ? reject(error) : resolve(value as T)));
    });
  } finally {
    connection.removeListener('error', failed).removeListener('end', ended);
  }
}
