import type { Socket } from 'node:net';
import { type Duplex, Readable } from 'node:stream';
import { Ended } from './errors.ts';

const CHUNK = 64 * 1024;
const NOTHING = Buffer.alloc(0);

export interface MessageSteps {
  source: Buffer;
  socket: Socket;
  /** runs before the first byte is read */
  begin(): Promise<void>;
  /** runs when everything except the final dot has left this process, just before the dot is written */
  end(): void;
}

/**
 * A message as nodemailer reads it, once the server said 354. Its end is held back until every byte before it was given
 * to the system: a connection that fails earlier has certainly not submitted the message.
 */
export class SmtpMessage extends Readable {
  private readonly pieces: AsyncGenerator<Buffer, void>;
  /** nodemailer's stream that stuffs dots and writes to the socket */
  private lines: Duplex | undefined;

  constructor(steps: MessageSteps) {
    super({ highWaterMark: CHUNK });
    this.pieces = this.read64k(steps);
  }

  override pipe<T extends NodeJS.WritableStream>(destination: T, options?: { end?: boolean }): T {
    this.lines = destination as unknown as Duplex;
    return super.pipe(destination, options);
  }

  override _read(): void {
    this.pieces.next().then(
      ({ value }) => this.push(value ?? null),
      (error: unknown) => this.destroy(error as Error),
    );
  }

  private async *read64k({ source, socket, begin, end }: MessageSteps): AsyncGenerator<Buffer, void> {
    await begin();
    for (let at = 0; at < source.length; at += CHUNK) yield source.subarray(at, at + CHUNK);
    await this.allWritten(socket);
    // A refusal or a hang-up in the middle is noticed before the dot makes it a message.
    await turn();
    if (this.destroyed || !socket.writable || socket.destroyed) throw new Ended('ECONNECTION');
    end();
  }

  /** Never settles on a connection that dies before; nodemailer ends the message then. */
  private async allWritten(socket: Socket): Promise<void> {
    const { lines } = this;
    while (!this.destroyed) {
      if (socket.writableNeedDrain) await new Promise((resolve) => socket.once('drain', resolve));
      else if (this.readableLength + (lines?.readableLength ?? 0) + (lines?.writableLength ?? 0) > 0) await turn();
      else break;
    }
    await new Promise((resolve) => socket.write(NOTHING, resolve));
  }
}

/** Resolves when received data has been processed. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
