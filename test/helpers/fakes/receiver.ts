import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { Email } from '../../../src/contract/email.ts';
import type { EventEnvelope, EventType } from '../../../src/contract/events.ts';
import type { Folder } from '../../../src/contract/folder.ts';
import { listenOnFreePort } from '../servers/free-port.ts';
import { waitFor, type WaitOptions } from '../assert/wait.ts';

/** One call to the webhook receiver. */
export interface Call {
  /** when it was complete, ms since 1970 */
  at: number;
  path: string;
  headers: IncomingHttpHeaders;
  /** the exact bytes */
  body: Buffer;
  event: EventEnvelope;
  /** the status of the answer */
  status: number;
}

/** Calls that were made to a receiver. */
export interface Calls {
  /** every call, in the order of arrival, including refused ones */
  calls: Call[];
  /** violations of the contract (signature, headers); empty in a correct run */
  faults: string[];
  /** accepted calls, filtered by types and account where given */
  accepted(filter?: { account?: string; types?: EventType[] }): Call[];
  /** Waits for an accepted call that matches. @throws WaitTimeout naming the types that came instead */
  waitFor(fits: (call: Call) => boolean, options?: WaitOptions): Promise<Call>;
}

/** A customer's webhook endpoint: records every call, and answers as the test wants. */
export interface Receiver extends Calls {
  url: string;
  /** secrets by endpoint id; signatures of other endpoints are not checked */
  secrets: Map<string, string>;
  /** the status to answer; default 200 */
  answer: (call: Call) => number | Promise<number>;
  /** called with each recorded call and its faults */
  onCall: (call: Call, faults: string[]) => void;
  close(): Promise<void>;
}

/** Starts a receiver on a free loopback port. */
export async function startReceiver(): Promise<Receiver> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const event = JSON.parse(body.toString('utf8')) as EventEnvelope;
      const call: Call = { at: Date.now(), path: request.url ?? '/', headers: request.headers, body, event, status: 0 };
      const end = (status: number) => {
        call.status = status;
        receiver.calls.push(call);
        const faults = faultsOf(call, receiver.secrets.get(event.endpoint_id));
        receiver.faults.push(...faults);
        receiver.onCall(call, faults);
        response.statusCode = status;
        response.end();
      };
      const answered = receiver.answer(call);
      if (typeof answered === 'number') end(answered);
      else void answered.then(end);
    });
  });
  const port = await listenOnFreePort(server);
  const receiver: Receiver = {
    ...callsIn([], []),
    url: `http://127.0.0.1:${port}/hook`,
    secrets: new Map(),
    answer: () => 200,
    onCall: () => {},
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}

/** Searches a growing list of calls. */
export function callsIn(calls: Call[], faults: string[]): Calls {
  const accepted: Calls['accepted'] = ({ account, types } = {}) =>
    calls.filter(
      ({ event, status }) =>
        status < 300 &&
        (account === undefined || event.account_id === account) &&
        (types === undefined || types.includes(event.type)),
    );
  return {
    calls,
    faults,
    accepted,
    waitFor: (fits, options = {}) =>
      waitFor(() => accepted().find(fits), {
        everyMs: 20,
        what: () => `a webhook call; came: ${calls.map(({ event }) => event.type).join(', ') || 'nothing'}`,
        ...options,
      }),
  };
}

/** The faults of a call, by the documented contract of webhooks and the Standard Webhooks rules. */
function faultsOf({ headers, body, event }: Call, secret: string | undefined): string[] {
  const faults: string[] = [];
  const expected: [string, string | undefined][] = [
    ['content-type', 'application/json'],
    ['x-email-engine-event', event.type],
    ['webhook-id', event.id],
  ];
  if (secret !== undefined) {
    expected.push(['x-email-engine-signature', `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`]);
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    const signed = Buffer.concat([Buffer.from(`${event.id}.${String(headers['webhook-timestamp'])}.`), body]);
    expected.push(['webhook-signature', `v1,${createHmac('sha256', key).update(signed).digest('base64')}`]);
  }
  for (const [name, value] of expected) {
    if (headers[name] !== value)
      faults.push(`${event.type}: ${name} is ${String(headers[name])}, expected ${String(value)}`);
  }
  if (!/^whc_/.test(String(headers['x-email-engine-delivery']))) faults.push(`${event.type}: no delivery id`);
  return faults;
}

/** The email that an email event is about. */
export function emailOf(call: Pick<Call, 'event'>): Email {
  return call.event.data.email as Email;
}

/** The folder that a folder event is about. */
export function folderOf(call: Pick<Call, 'event'>): Folder {
  return call.event.data.folder as Folder;
}
