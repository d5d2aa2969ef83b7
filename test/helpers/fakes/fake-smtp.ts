import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { FakeSmtpSession } from './fake-smtp-session.ts';
import { listenOnFreePort } from '../servers/free-port.ts';

/** Where in a conversation a script may step in; `data`: the message is coming; `dot`: it has come whole. */
export type SmtpMoment = 'greeting' | 'EHLO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'data' | 'dot' | 'RSET' | 'QUIT';

/**
 * What the server does instead of what it should: a line (`550 5.7.1 no`) is its answer, `drop` ends the connection,
 * `silence` says nothing any more; `take and drop` (at `dot`) stores the message and ends the connection.
 */
export type SmtpReaction = `${number} ${string}` | 'drop' | 'silence' | 'take and drop';

/** Looked at for each command; undefined: as it should be. `line` is the command, or the message so far. */
export type SmtpScript = (
  moment: SmtpMoment,
  line: string,
  session: FakeSmtpSession,
) => SmtpReaction | undefined | Promise<SmtpReaction | undefined>;

export interface StoredMessage {
  from: string;
  to: string[];
  /** as it came, dots unstuffed */
  source: Buffer;
  /** parameters of MAIL */
  parameters: string[];
  /** number of the connection, from 1 */
  connection: number;
}

export interface FakeSmtpOptions {
  /** lines of EHLO's answer; AUTH and PIPELINING are among the usual ones */
  extensions?: string[];
  /** who may log in; default: everybody */
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

  /** How often a command was given. */
  count(name: string): number {
    return this.log.filter((line) => line.toUpperCase().startsWith(name)).length;
  }

  async close(): Promise<void> {
    for (const { socket } of this.sessions) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** A script that steps in at one moment, `times` times. */
export function at(moment: SmtpMoment, reaction: SmtpReaction, times = Infinity): SmtpScript {
  let left = times;
  return (now) => (now === moment && left-- > 0 ? reaction : undefined);
}
