import { beforeEach, expect, it } from '@jest/globals';
import type { OutboundFetch } from '../../src/security/outbound-fetch.ts';
import { sparingSilentHosts } from '../../src/security/silent-hosts.ts';

const timedOut = Object.assign(new Error('timed out'), { code: 'ETIMEDOUT' });

let now = 0;
let called: string[] = [];
let answer: () => Promise<Response>;
let sparing: OutboundFetch;

beforeEach(() => {
  now = 0;
  called = [];
  answer = () => Promise.reject(timedOut);
  const fetch: OutboundFetch = (url) => {
    called.push(String(url));
    return answer();
  };
  sparing = sparingSilentHosts(fetch, () => now);
});

it('a server that did not respond is called again after the pause, other servers at any time', async () => {
  await expect(sparing('https://a.test/token')).rejects.toBe(timedOut);
  now = 14_999;
  await expect(sparing('https://a.test/other')).rejects.toBe(timedOut);
  await expect(sparing('https://b.test/token')).rejects.toBe(timedOut);
  expect(called).toEqual(['https://a.test/token', 'https://b.test/token']);
  now = 15_000;
  answer = async () => new Response('{}');
  expect((await sparing('https://a.test/token')).status).toBe(200);
  expect((await sparing('https://a.test/token')).status).toBe(200);
});

it('one request tries whether a server responds again', async () => {
  await expect(sparing('https://a.test/token')).rejects.toBe(timedOut);
  now = 15_000;
  let respond = (_: Response) => {};
  answer = () => new Promise((resolve) => (respond = resolve));
  const first = sparing('https://a.test/token');
  await expect(sparing('https://a.test/token')).rejects.toBe(timedOut);
  respond(new Response('{}'));
  await first;
  expect(called).toHaveLength(2);
});

it('a server that refuses connections is called each time: that delays no other request', async () => {
  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  answer = () => Promise.reject(refused);
  await expect(sparing('https://a.test/token')).rejects.toBe(refused);
  await expect(sparing('https://a.test/token')).rejects.toBe(refused);
  expect(called).toHaveLength(2);
});
