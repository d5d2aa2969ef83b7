import { createConnection, type Socket } from 'node:net';
import { once } from 'node:events';
import type { MailLogin } from '../product/mail-user.ts';

/**
 * An IMAP client that only appends, as fast as the server accepts: commands are sent without waiting for previous answers
 * (LITERAL+).
 */
export interface RawImap {
  /** Appends each message by a separate command; resolves when all have been confirmed. */
  append(folder: string, messages: Buffer[], date?: Date): Promise<void>;
  /** Appends many messages by few commands (MULTIAPPEND). */
  fill(folder: string, messages: Iterable<Buffer>, date?: Date): Promise<void>;
  create(folder: string): Promise<void>;
  close(): void;
}

const PER_COMMAND = 100;

/** Logs in on loopback without TLS. Throws when the server refuses. */
export async function rawImap(login: MailLogin): Promise<RawImap> {
  const socket = createConnection({ port: login.imapPort, host: '127.0.0.1', noDelay: true });
  const answers = listenForAnswers(socket);
  await once(socket, 'connect');
  let tag = 0;
  const command = (parts: (string | Buffer)[]): Promise<void> => {
    const name = `a${++tag}`;
    const answer = answers.waitFor(name);
    socket.cork();
    socket.write(`${name} `);
    for (const part of parts) socket.write(part);
    socket.write('\r\n');
    socket.uncork();
    return answer;
  };
  await command(['LOGIN ', quoted(login.user), ' ', quoted(login.password)]);
  const literal = (message: Buffer, date: Date | undefined) => [
    `${date ? ` "${internalDate(date)}"` : ''} {${message.length}+}\r\n`,
    message,
  ];
  return {
    append: async (folder, messages, date) => {
      await Promise.all(messages.map((message) => command([`APPEND ${quoted(folder)}`, ...literal(message, date)])));
    },
    fill: async (folder, messages, date) => {
      let batch: Buffer[] = [];
      const flush = async () => {
        if (batch.length > 0) {
          await command([`APPEND ${quoted(folder)}`, ...batch.flatMap((message) => literal(message, date))]);
        }
        batch = [];
      };
      for (const message of messages) {
        batch.push(message);
        if (batch.length === PER_COMMAND) await flush();
      }
      await flush();
    },
    create: (folder) => command([`CREATE ${quoted(folder)}`]),
    close: () => socket.destroy(),
  };
}

function listenForAnswers(socket: Socket) {
  const waiting = new Map<string, { resolve: () => void; reject: (error: Error) => void }>();
  let rest = '';
  const fail = (error: Error) => {
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  socket.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString('latin1')).split('\r\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const [tag = '', status] = line.split(' ', 2);
      const waiter = waiting.get(tag);
      if (!waiter) continue;
      waiting.delete(tag);
      if (status === 'OK') waiter.resolve();
      else waiter.reject(new Error(`the mail server answered: ${line}`));
    }
  });
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('the mail server closed the connection')));
  return {
    waitFor: (tag: string) => new Promise<void>((resolve, reject) => waiting.set(tag, { resolve, reject })),
  };
}

function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function internalDate(date: Date): string {
  const two = (number: number) => String(number).padStart(2, '0');
  const day = `${two(date.getUTCDate())}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()}`;
  return `${day} ${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} +0000`;
}
