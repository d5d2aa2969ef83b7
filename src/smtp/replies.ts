import type { Socket } from 'node:net';

/** The replies of an SMTP server on a socket, in their order: the last line of each (RFC 5321, 4.2.1). */
export interface Replies {
  readonly lines: readonly string[];
  stop(): void;
}

/** A server that sends no line end is not read further. */
const LONGEST_LINE = 4_096;

export function readReplies(socket: Socket): Replies {
  const lines: string[] = [];
  let rest = '';
  const read = (bytes: Buffer) => {
    const parts = `${rest}${bytes.toString('utf8')}`.split(/\r?\n/);
    rest = (parts.pop() ?? '').slice(0, LONGEST_LINE);
    for (const line of parts) if (/^\d{3}(?!-)/.test(line)) lines.push(line);
  };
  socket.on('data', read);
  return { lines, stop: () => void socket.removeListener('data', read) };
}
