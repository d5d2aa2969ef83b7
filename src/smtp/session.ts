import { isAscii } from 'node:buffer';
import type { Socket } from 'node:net';
import type SMTPConnection from 'nodemailer/lib/smtp-connection';
import { Ended, isRefusal, SendFailed, type SendStage } from './errors.ts';
import { quitSmtp } from './login.ts';
import { SmtpMessage } from './message.ts';

/** Who a message is from and for, as SMTP has it; each address once, without a name. */
export interface Envelope {
  from: string;
  to: string[];
}

export interface Submission {
  envelope: Envelope;
  source: Buffer;
  /** runs after the server's 354 and before the first byte of the message; if it fails, nothing is sent */
  beforeData: () => Promise<void>;
}

/** A logged-in SMTP connection that carries one message after another. */
export interface SmtpSession {
  /** bytes of the largest message that the server takes (RFC 1870); 0: it does not say */
  readonly maxSize: number;
  /** addresses may hold more than ASCII (RFC 6531) */
  readonly smtpUtf8: boolean;
  readonly usable: boolean;
  /** messages tried so far */
  readonly messages: number;
  /**
   * Hands one message over and answers the recipients that were refused beside others that were not.
   * @throws SendFailed when the server did not take it; what `beforeData` threw, as it is
   */
  send(message: Submission): Promise<string[]>;
  /** RSET: ends a transaction that was refused. */
  reset(): Promise<void>;
  /** calls back once, when the connection has ended */
  onEnd(listener: () => void): void;
  quit(): Promise<void>;
  destroy(): void;
}

/** Milliseconds that a server may take. */
export interface SmtpTimes {
  /** silence of a server that owes an answer to MAIL, RCPT or DATA */
  answer: number;
  /** the same for the first answer on a connection that was kept: a dead one shows itself by silence */
  firstAnswer: number;
  /** nothing of the message could be handed on */
  stall: number;
  /** the answer to the end of a small message */
  final: number;
}

/** RFC 5321, 4.5.3.2 would wait 5 to 10 minutes each; a caller of ours is waiting. */
const TIMES: SmtpTimes = { answer: 15_000, firstAnswer: 5_000, stall: 30_000, final: 60_000 };
const MiB = 1024 * 1024;

/** What the parts of sending a message may take altogether, whatever the server says meanwhile. */
function limitsOf({ source, envelope }: Submission, times: SmtpTimes) {
  const mebibytes = Math.ceil(source.length / MiB);
  return {
    envelope: 2 * times.answer + 100 * envelope.to.length,
    // 64 KiB a second
    data: 2 * times.stall + 16_000 * mebibytes,
    final: times.final + 1_000 * mebibytes,
  };
}

/** What nodemailer keeps of the answer to EHLO, and hands out to authentication handlers only. */
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
      const firstAnswer = messages++ === 0 ? times.answer : times.firstAnswer;
      return sendOn(connection, message, { ...times, firstAnswer });
    },
    async reset() {
      await attempt<void>(connection, (settle) => {
        socket.setTimeout(times.answer);
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
  /** what it threw */
  stopped?: { reason: unknown };
  over?: boolean;
}

async function sendOn(connection: SMTPConnection, message: Submission, times: SmtpTimes): Promise<string[]> {
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
  const answered = () => socket.setTimeout(times.answer);
  const steps = new SmtpMessage({
    source,
    socket,
    begin: async () => {
      progress.stage = 'data';
      // Our own step takes the time that it takes.
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
      progress.stage = 'handed_over';
      allow(limits.final, 0);
    },
  });
  try {
    const info = await attempt<SMTPConnection.SentMessageInfo>(connection, (settle) => {
      giveUp = settle;
      allow(limits.envelope, times.firstAnswer);
      socket.once('data', answered);
      const size = source.length;
      const use8BitMime = !isAscii(source);
      connection.send({ from: envelope.from, to: envelope.to, size, use8BitMime }, steps, settle);
    });
    // An answer that came before the end is none to the message.
    if (progress.stage !== 'handed_over') throw new Ended('EPROTOCOL');
    return info.rejected;
  } catch (cause) {
    if (progress.stage === 'data' || !isRefusal(cause)) connection.close();
    const { stage } = progress;
    // What it does must be done before the failure is told.
    await progress.begun.catch(() => {});
    if (progress.stopped) throw progress.stopped.reason;
    throw new SendFailed(stage, cause);
  } finally {
    progress.over = true;
    clearTimeout(timer);
    steps.destroy();
    socket.removeListener('data', answered);
    socket.setTimeout(0);
  }
}

/** Runs one exchange of nodemailer's, which fails, too, when the connection ends without another word. */
async function attempt<T>(
  connection: SMTPConnection,
  run: (settle: (error?: Error | null, value?: T) => void) => void,
): Promise<T> {
  let failed: (error: Error) => void = () => {};
  // nodemailer may tell the end first, and then why
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
