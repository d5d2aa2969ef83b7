import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { EventType } from '../../src/contract/events.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import type { Database } from '../../src/db/driver/client.ts';
import { openDatabase } from '../../src/db/open.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { callHeaders } from '../../src/webhooks/attempt/sign.ts';
import { storeAccount } from '../../test/helpers/product/stored-account.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import { type Bench, databaseUrl } from './setup.ts';

/*
 * Deliveries alone: the bench writes events into the product's outbox and is the receiver as well.
 */

/** A type that the permanent receiver of a bench does not subscribe to. */
const TYPE: EventType = 'email.folder.update';
export const DATA_BYTES = 4_000;

export interface Ground {
  database: Database;
  accountId: string;
}

export async function prepare(bench: Bench): Promise<Ground> {
  const database = openDatabase(await databaseUrl(bench), { max: 4, logger: createLogger('silent', 'bench') });
  bench.alsoStop.push(() => database.close());
  const accountId = await storeAccount(database);
  // without a mailbox
  await database.pool.query(`update accounts set status = 'disconnected' where id = $1`, [accountId]);
  return { database, accountId };
}

/** Writes events of these objects in one transaction; resolves with the time of the commit. */
export async function happen({ database, accountId }: Ground, objectIds: readonly string[]): Promise<number> {
  const createdAt = new Date();
  const events = objectIds.map((objectId) => ({
    type: TYPE,
    objectId,
    data: { email: { id: objectId, body: 'x'.repeat(DATA_BYTES) } },
    createdAt,
  }));
  await database.db.transaction((tx) => recordEvents(tx, accountId, events));
  return Date.now();
}

export interface Hook {
  url: string;
  /** time of the 2xx answer by event sequence */
  received: Map<number, number>;
  calls: number;
  close(): Promise<void>;
}

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** An endpoint that reads the whole call, records it and answers. */
export async function hook(answer: Answer): Promise<Hook> {
  const received = new Map<number, number>();
  const the = { calls: 0 };
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      the.calls += 1;
      const { sequence } = JSON.parse(Buffer.concat(chunks).toString()) as { sequence: number };
      answer(response, request);
      if (response.statusCode < 300 && response.writableEnded && !received.has(sequence)) {
        received.set(sequence, Date.now());
      }
    });
    request.on('error', () => {});
  });
  server.keepAliveTimeout = 30_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    received,
    get calls() {
      return the.calls;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export const ok: Answer = (response) => void response.writeHead(200).end();

/** Creates an endpoint for events of TYPE. */
export const endpoint = (bench: Bench, url: string, { enabled = true } = {}) =>
  bench.api.post<{ id: string }>('/webhooks/endpoints', { url, trigger_events: [TYPE], enabled });

/** The sequence that the next event of the account gets. */
export async function nextSequence({ database, accountId }: Ground): Promise<number> {
  const { rows } = await database.pool.query<{ n: string }>('select event_sequence as n from accounts where id = $1', [
    accountId,
  ]);
  return Number(rows[0]?.n) + 1;
}

/** The number of events received before an earlier one of their object; `objectOf` maps a sequence to its object. */
export function outOfOrder({ received }: Hook, objectOf: (sequence: number) => string): number {
  const last = new Map<string, number>();
  let count = 0;
  for (const sequence of received.keys()) {
    const object = objectOf(sequence);
    if ((last.get(object) ?? 0) > sequence) count += 1;
    last.set(object, sequence);
  }
  return count;
}

/** Writes events at a steady rate; resolves with the ms from each commit to its receipt. */
export async function steadily(
  ground: Ground,
  receiver: Pick<Hook, 'received'>,
  { seconds, perSecond }: { seconds: number; perSecond: number },
): Promise<number[]> {
  const first = await nextSequence(ground);
  const commits: number[] = [];
  const began = Date.now();
  for (let n = 0; n < seconds * perSecond; n++) {
    const at = began + (n * 1000) / perSecond;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - Date.now())));
    commits.push(await happen(ground, [newId('email')]));
  }
  await waitFor(() => receiver.received.has(first + commits.length - 1), { timeoutMs: 30_000, what: 'the last event' });
  return commits.map((at, n) => (receiver.received.get(first + n) ?? Date.now()) - at);
}

const BARE_CALLS = 5_000;
const BARE_AT_A_TIME = 10;

/** Calls a second of a process that only signs and posts the same events, over ten connections. */
export async function signAndPost(url: string): Promise<number> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: BARE_AT_A_TIME });
  const data = JSON.stringify({ email: { id: newId('email'), body: 'x'.repeat(DATA_BYTES) } });
  const secret = 'whsec_c2VjcmV0IG9mIGEgYmVuY2htYXJrIG9ubHk';
  const post = async (number: number) => {
    const [eventId, deliveryId, at] = [newId('event'), newId('delivery'), new Date()];
    const body = Buffer.from(`{"id":"${eventId}","type":"${TYPE}","sequence":${-number - 1},"data":${data}}`);
    const signed = callHeaders([], { eventId, deliveryId, type: TYPE, body, at, secret });
    const headers = Object.fromEntries(signed.map(({ name, value }) => [name, value]));
    const request = http.request(url, {
      method: 'POST',
      agent,
      headers: { ...headers, 'Content-Length': body.length },
    });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
  };
  const began = Date.now();
  let next = 0;
  const postInTurn = async () => {
    for (let number = next++; number < BARE_CALLS; number = next++) await post(number);
  };
  await Promise.all(Array.from({ length: BARE_AT_A_TIME }, postInTurn));
  agent.destroy();
  return (BARE_CALLS / (Date.now() - began)) * 1000;
}
