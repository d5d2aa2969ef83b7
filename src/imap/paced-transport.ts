import { connect as connectTcp, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { ImapTransport } from 'imapflow';
import type { ResponseMeter } from './response-meter.ts';

/*
 * imapflow reads whatever has arrived before other work of this process gets its turn: 640 KB of short lines hold the event
 * loop for seconds. Its `transport` gets a few of them in each turn here, counted before they are parsed.
 */

/** Opens the sockets of one imapflow client, which reads no more in one turn than `meter` says, nor more than it allows. */
export function createPacedTransport(meter: ResponseMeter): ImapTransport {
  return {
    connect({ secure, tls, ...destination }, onConnect) {
      if (!secure) return new PacedSocket(connectTcp(destination, onConnect), meter);
      return new PacedSocket(connectTls({ ...destination, ...tls }, onConnect), meter);
    },
    upgrade(socket, { tls, ...destination }, onSecure) {
      const plain = (socket as PacedSocket).release();
      return new PacedSocket(connectTls({ ...destination, ...tls, socket: plain }, onSecure), meter);
    },
  };
}

/** A socket of which a little is read in each turn of the event loop. */
class PacedSocket extends Duplex {
  private readonly socket: Socket | TLSSocket;
  private readonly meter: ResponseMeter;
  /** read from the socket, but not passed on */
  private rest: Buffer | null = null;
  private isWanted = false;
  private hasEnded = false;
  private turn: NodeJS.Immediate | undefined;
  private readonly onReadable = () => this.pass();

  constructor(socket: Socket | TLSSocket, meter: ResponseMeter) {
    super({ allowHalfOpen: false });
    this.socket = socket;
    this.meter = meter;
    socket.on('readable', this.onReadable);
    socket.on('timeout', () => this.emit('timeout'));
    socket.on('error', (error: Error) => this.destroy(error));
    socket.on('end', () => {
      this.hasEnded = true;
      this.pass();
    });
    // After its end, the bytes in `rest` are still to be passed on.
    socket.on('close', () => this.hasEnded || this.destroy());
  }

  /** The socket, for TLS. @throws Error when bytes came that no command asked for: someone injected them before TLS */
  release(): Socket {
    if (this.rest || this.socket.readableLength > 0) {
      throw Object.assign(new Error('bytes before the TLS handshake'), { code: 'STARTTLS_INJECTION' });
    }
    this.socket.off('readable', this.onReadable);
    this.socket.setTimeout(0);
    clearImmediate(this.turn);
    this.isWanted = false;
    // The errors of the handshake and later ones are those of the TLS socket.
    this.on('error', () => {});
    return this.socket;
  }

  setTimeout(ms: number): this {
    this.socket.setTimeout(ms);
    return this;
  }

  setKeepAlive(enable?: boolean, initialDelay?: number): this {
    this.socket.setKeepAlive(enable, initialDelay);
    return this;
  }

  override _read(): void {
    this.isWanted = true;
    this.pass();
  }

  private pass(): void {
    if (!this.isWanted || this.destroyed) return;
    const bytes = this.rest ?? (this.socket.read() as Buffer | null);
    if (!bytes) {
      if (this.hasEnded) this.push(null);
      return;
    }
    const length = this.meter.take(bytes);
    if (this.meter.exceeded) {
      this.destroy(Object.assign(new Error('the server sent too much'), { code: 'TooManyResponses' }));
      return;
    }
    this.turn ??= setImmediate(() => {
      this.turn = undefined;
      this.meter.beginTurn();
      this.pass();
    });
    this.rest = length < bytes.length ? bytes.subarray(length) : null;
    if (length === 0) return;
    this.isWanted = false;
    this.push(bytes.subarray(0, length));
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.socket.write(bytes, done);
  }

  override _final(done: () => void): void {
    this.socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearImmediate(this.turn);
    this.socket.destroy();
    done(error);
  }
}
