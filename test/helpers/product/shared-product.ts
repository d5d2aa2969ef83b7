import { once } from 'node:events';
import { get } from 'node:http';
import { createInterface } from 'node:readline';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { Api } from './api.ts';
import { type Call, type Calls, callsIn } from '../fakes/receiver.ts';

/** The variable with the address of product-host.ts. */
export const HOST_VARIABLE = 'TEST_PRODUCTS';

/** How a shared product is reached. */
export interface ProductAddress {
  base: string;
  key: string;
  databaseUrl: string;
}

/** A call on its way to the test files. */
export interface SharedCall extends Omit<Call, 'body' | 'event'> {
  /** base64 */
  body: string;
  faults: string[];
}

/** A product that other test files use at the same time. */
export interface SharedProduct {
  api: Api;
  /** calls from now on, including those for accounts of other files */
  calls: Calls;
  databaseUrl: string;
  /** Stops following the calls; the product keeps running. */
  leave(): void;
}

/** The product of this test run with these settings, started at the first request. Throws outside of `npm test`. */
export async function joinProduct(settings: Record<string, string>): Promise<SharedProduct> {
  const host = process.env[HOST_VARIABLE];
  if (host === undefined) throw new Error(`${HOST_VARIABLE} is not set: run tests by \`npm test -- <path>\``);
  const query = new URLSearchParams({ settings: JSON.stringify(Object.fromEntries(Object.entries(settings).sort())) });
  const response = await fetch(`${host}/product?${query.toString()}`);
  if (!response.ok) throw new Error(await response.text());
  const { base, key, databaseUrl } = (await response.json()) as ProductAddress;
  const { calls, leave } = await follow(`${host}/calls?${query.toString()}`);
  return { api: new Api(base, key), calls, databaseUrl, leave };
}

async function follow(url: string): Promise<{ calls: Calls; leave(): void }> {
  const calls = callsIn([], []);
  const request = get(url, { agent: false });
  const [stream] = (await once(request, 'response')) as [NodeJS.ReadableStream];
  const lines = createInterface({ input: stream });
  // leaving breaks the stream off
  for (const part of [request, lines]) part.on('error', () => {});
  lines.on('line', (line) => {
    const { faults, body, ...rest } = JSON.parse(line) as SharedCall;
    const bytes = Buffer.from(body, 'base64');
    calls.calls.push({ ...rest, body: bytes, event: JSON.parse(bytes.toString('utf8')) as EventEnvelope });
    calls.faults.push(...faults);
  });
  return { calls, leave: () => request.destroy() };
}
