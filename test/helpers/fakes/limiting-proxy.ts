import { createConnection, createServer, type Socket } from 'node:net';
import { listenOnFreePort } from '../servers/free-port.ts';
import { CommandReader, parseCommand } from './fake-imap-wire.ts';

export interface LimitingProxy {
  port: number;
  close(): Promise<void>;
}

/**
 * Forwards a free loopback port to the IMAP server at `target`, which then has a MESSAGELIMIT (RFC 9738): FETCH and SEARCH
 * answer with the first messages only, and commands that write about more messages are refused.
 */
export async function startLimitingProxy(target: number, limit: number): Promise<LimitingProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = createConnection({ port: target, host: '127.0.0.1' });
    const conversation = new Conversation(client, upstream, limit);
    client.on('data', (chunk: Buffer) => conversation.fromClient(chunk));
    upstream.on('data', (chunk: Buffer) => conversation.fromServer(chunk));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay(true).on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  return {
    port: await listenOnFreePort(server),
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

const WRITES = /^UID (STORE|COPY|MOVE|EXPUNGE)$/;

class Conversation {
  private readonly client: Socket;
  private readonly upstream: Socket;
  private readonly limit: number;
  private readonly commands = new CommandReader(() => true);
  /** bytes of a response that is not complete yet */
  private pending = Buffer.alloc(0);
  /** the response so far: lines that end with a literal, and the literals */
  private response: Buffer[] = [];
  private literal = 0;
  /** messages in the responses since the last tagged one */
  private rows = 0;
  private isCut = false;

  constructor(client: Socket, upstream: Socket, limit: number) {
    this.client = client;
    this.upstream = upstream;
    this.limit = limit;
  }

  fromClient(chunk: Buffer): void {
    for (const line of this.commands.read(chunk)) {
      const { tag, name, args } = parseCommand(line);
      if (WRITES.test(name) && sizeOf(String(args[0])) > this.limit) {
        this.client.write(`${tag} NO [MESSAGELIMIT ${this.limit}] too many messages\r\n`);
        return;
      }
    }
    this.upstream.write(chunk);
  }

  fromServer(chunk: Buffer): void {
    this.pending = Buffer.concat([this.pending, chunk]);
    for (;;) {
      const end = this.literal > 0 ? this.literal : this.pending.indexOf('\r\n') + 2;
      if (end < 2 || this.pending.length < end) return;
      const piece = this.pending.subarray(0, end);
      this.pending = this.pending.subarray(end);
      this.response.push(piece);
      const isLine = this.literal === 0;
      this.literal = isLine ? Number(/\{(\d+)\}\r\n$/.exec(piece.toString('latin1'))?.[1] ?? 0) : 0;
      if (!isLine || this.literal > 0) continue;
      this.pass(this.response.splice(0));
    }
  }

  private pass(pieces: Buffer[]): void {
    const line = (pieces[0] ?? Buffer.alloc(0)).toString('latin1');
    if (/^\* \d+ FETCH /i.test(line)) {
      this.rows += 1;
      if (this.rows > this.limit) this.isCut = true;
      // a change of flags that no command asked for is not a result
      if (this.rows > this.limit && !/^\* \d+ FETCH \((UID \d+ )?FLAGS \([^)]*\)\)/i.test(line)) return;
    }
    const changed = this.rewrite(line);
    this.client.write(changed === line ? Buffer.concat(pieces) : Buffer.from(changed, 'latin1'));
  }

  private rewrite(line: string): string {
    if (/^\* SEARCH /i.test(line)) {
      const uids = line.trim().split(' ').slice(2);
      if (uids.length <= this.limit) return line;
      this.isCut = true;
      return `* SEARCH ${uids.slice(0, this.limit).join(' ')}\r\n`;
    }
    const announced = line.replace(/^(\* CAPABILITY|.*\[CAPABILITY) /i, `$& MESSAGELIMIT=${this.limit} `);
    if (!/^[^*+\s]\S* (OK|NO|BAD) /i.test(line)) return announced.replace('  ', ' ');
    const { isCut } = this;
    this.rows = 0;
    this.isCut = false;
    return isCut ? line.replace(/^(\S+ OK )/i, `$1[MESSAGELIMIT ${this.limit}] `) : announced.replace('  ', ' ');
  }
}

/** The messages that a set names at most. */
function sizeOf(set: string): number {
  return set.split(',').reduce((sum, part) => {
    const [from = '', to = from] = part.split(':');
    return sum + (to === '*' ? Infinity : Number(to) - Number(from) + 1);
  }, 0);
}
