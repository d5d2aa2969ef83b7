import { createConnection, createServer, type Socket } from 'node:net';
import { listenOnFreePort } from '../servers/free-port.ts';

/** A provider's front that ends each session when the access token that opened it expires, as Gmail does. */
export interface TokenProxy {
  port: number;
  /** logins with a token so far */
  logins: number;
  /** sessions that were ended with their token */
  ended: number;
  /** sees the bytes of a client, and says how long they are held back, ms */
  delay: (data: Buffer) => number;
  /** Ends all sessions. */
  cut(): void;
  close(): Promise<void>;
}

const LOGIN = /\b(?:XOAUTH2|OAUTHBEARER) ([A-Za-z0-9+/=]+)/;

/** Forwards a free loopback port to `target`; `expiryOf`: when a token expires, ms since 1970. */
export async function startTokenProxy(
  target: number,
  expiryOf: (token: string) => Promise<number | undefined>,
): Promise<TokenProxy> {
  const pairs = new Set<() => void>();
  const server = createServer((inside) => {
    const outside = createConnection({ port: target, host: '127.0.0.1' });
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      pairs.delete(end);
      inside.destroy();
      outside.destroy();
    };
    pairs.add(end);
    for (const socket of [inside, outside] as Socket[]) socket.setNoDelay(true).on('error', end).on('close', end);
    outside.pipe(inside);
    inside.on('data', (data: Buffer) => {
      const ms = proxy.delay(data);
      if (ms === 0) outside.write(data);
      else {
        inside.pause();
        setTimeout(() => {
          outside.write(data);
          inside.resume();
        }, ms);
      }
      const [, response] = LOGIN.exec(data.toString('latin1')) ?? [];
      const [, token] = /auth=Bearer ([^\x01]+)/.exec(Buffer.from(response ?? '', 'base64').toString()) ?? [];
      if (token === undefined) return;
      proxy.logins += 1;
      void expiryOf(token).then((at) => {
        if (at === undefined) return;
        timer = setTimeout(() => {
          proxy.ended += 1;
          end();
        }, at - Date.now());
      });
    });
  });
  const proxy: TokenProxy = {
    port: await listenOnFreePort(server),
    logins: 0,
    ended: 0,
    delay: () => 0,
    cut: () => pairs.forEach((end) => end()),
    close: () => {
      pairs.forEach((end) => end());
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return proxy;
}
