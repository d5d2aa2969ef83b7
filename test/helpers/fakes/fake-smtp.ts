import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { FakeSmtpSession } from './fake-smtp-session.ts';
import { listenOnFreePort } from '../servers/free-port.ts';

/** The moments at which a script may intervene; `data`: the message is arriving; `dot`: it is complete. */
export type SmtpMoment = 'greeting' | 'EHLO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'data' | 'dot' | 'RSET' | 'QUIT';

/**
 * A scripted reaction: a line (`550 5.7.1 no`) is the answer, `drop` closes the connection, `silence` sends nothing from
 * then on; `take and drop` (at `dot`) stores the message and closes the connection.
 */
export type SmtpReaction = `${number} ${string}` | 'drop' | 'silence' | 'take and drop';

/** Called for each command; undefined: the correct reaction. `line` is the command, or the message so far. */
export type SmtpScript = (
  moment: SmtpMoment,
  line: string,
  session: FakeSmtpSession,
) => SmtpReaction | undefined | Promise<SmtpReaction | undefined>;

export interface StoredMessage {
  from: string;
  to: string[];
  /** as received, dots unstuffed */
  source: Buffer;
  /** parameters of MAIL */
  parameters: string[];
  /** number of the connection, from 1 */
  connection: number;
}

export interface FakeSmtpOptions {
  /** lines of EHLO's answer; AUTH and PIPELINING are among the usual ones */
  extensions?: string[];
  /** the accepted login; default: any */
  login?: { user: string; password: string };
}

export const SMTP_EXTENSIONS = ['PIPELINING', '8BITMIME', 'ENHANCEDSTATUSCODES', 'SMTPUTF8', 'AUTH PLAIN LOGIN'];

/** An SMTP submission server in memory, without TLS, whose every answer a test can change. */
export class FakeSmtp {
  extensions: string[];
  script: SmtpScript = () => undefined;
  /** called with each message that is accepted, before the answer: files it into Sent, as Gmail does */
  onAccepted: (source: Buffer, message: StoredMessage) => void | Promise<void> = () => {};
  /** what was accepted */
  readonly messages: StoredMessage[] = [];
  /** every command so far */
  readonly log: string[] = [];
  readonly sessions = new Set<FakeSmtpSession>();
  /** connections so far */
  connections = 0;
  readonly login: { user: string; password: string } | undefined;
  private readonly server: Server;

  constructor({ extensions = SMTP_EXTENSIONS, login }: FakeSmtpOptions = {}) {
    this.extensions = extensions;
    this.login = login;
    this.server = createServer((socket: Socket) => {
      const session = new FakeSmtpSession(this, socket, ++this.connections);
      this.sessions.add(session);
      socket.on('close', () => this.sessions.delete(session)).on('error', () => {});
      void session.greet();
    });
  }

  async listen(): Promise<this> {
    await listenOnFreePort(this.server);
    return this;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** How often a command was received. */
  count(name: string): number {
    return this.log.filter((line) => line.toUpperCase().startsWith(name)).length;
  }

  async close(): Promise<void> {
    for (const { socket } of this.sessions) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** A script that intervenes at one moment, `times` times. */
export function at(moment: SmtpMoment, reaction: SmtpReaction, times = Infinity): SmtpScript {
  let left = times;
  return (now) => (now === moment && left-- > 0 ? reaction : undefined);
}
