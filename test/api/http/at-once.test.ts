import { randomBytes } from 'node:crypto';
import { type ClientRequest, get } from 'node:http';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** Limits hold for calls that arrive at the same moment, before the first of them has got its response. */

const WRONG_KEYS = 10;
let api: ApiUnderTest;
let url: string;
const calls: ClientRequest[] = [];
beforeAll(async () => {
  api = await apiUnderTest({ wrongKeysPerMinute: WRONG_KEYS });
  url = await api.app.listen({ host: '127.0.0.1', port: await freePort() });
});
afterAll(async () => {
  for (const call of calls) call.destroy();
  await api.close();
});

function statusOf(path: string, key: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = get(`${url}/api/v1${path}`, { agent: false, headers: { 'x-api-key': key } }, (response) =>
      resolve(response.on('error', () => {}).statusCode),
    );
    calls.push(call.on('error', reject));
  });
}

/** How many of the calls got which status. */
async function counted(count: number, call: () => Promise<number | undefined>): Promise<Record<string, number>> {
  const statuses = await Promise.all(Array.from({ length: count }, call));
  return Object.fromEntries([...new Set(statuses)].map((one) => [one, statuses.filter((each) => each === one).length]));
}

it('streams of one key', async () => {
  const open = (query = '') => statusOf(`/webhooks/events/stream${query}`, api.key);
  expect(await counted(20, () => open('?types=none'))).toEqual({ 400: 20 });
  expect(await counted(65, () => open())).toEqual({ 200: 20, 429: 45 });
});

it('guesses of a key', async () => {
  const guess = async () => {
    const headers = { 'x-api-key': `mbx_${randomBytes(30).toString('hex')}` };
    return (await api.app.inject({ url: '/api/v1/accounts', headers })).statusCode;
  };
  expect(await counted(100, guess)).toEqual({ 401: WRONG_KEYS, 429: 100 - WRONG_KEYS });
  expect((await api.call('GET', '/accounts')).statusCode).toBe(200);
});
