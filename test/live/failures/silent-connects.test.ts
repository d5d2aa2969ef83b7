import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type Product, startProduct } from '../../helpers/product/product.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';

/** Many connects at once to a server that accepts connections and never responds. */

const sockets = new Set<Socket>();
const silent = createServer((socket) => sockets.add(socket.on('error', () => {})));
let product: Product;
let port: number;

beforeAll(async () => {
  port = await listenOnFreePort(silent);
  product = await startProduct();
}, 120_000);
afterAll(async () => {
  await product?.stop();
  for (const socket of sockets) socket.destroy();
  silent.close();
});

it('say that the server did not respond, or that others are under way, within the deadline', async () => {
  const side = { host: '127.0.0.1', port, encryption: 'none' };
  const began = Date.now();
  const connect = async (user: string) => {
    const credentials = { user, password: 'x', imap: side, smtp: side };
    const answer = await product.api.request('POST', '/auth/intent', { provider: 'imap', credentials });
    const { detail } = (await answer.json()) as { detail: string };
    return `${answer.status} ${detail}`;
  };
  const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => connect(`u${index}@example.test`)));
  for (const answer of answers) {
    expect(answer).toMatch(/^502 .*IMAP.*timed out.*SMTP.*timed out|^429 too many other calls/);
  }
  expect(answers.filter((answer) => answer.startsWith('502')).length).toBeGreaterThanOrEqual(25);
  expect(Date.now() - began).toBeLessThan(50_000);
}, 90_000);
