import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { FORBIDDEN_HOSTS, FORBIDDEN_URLS } from '../helpers/fakes/forbidden-hosts.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const create = (url: string) =>
  api.call('POST', '/webhooks/endpoints', { body: { url, trigger_events: ['email.new'] } });

it.each(FORBIDDEN_URLS.map((url) => [url]))('rejects an endpoint with the URL %j', async (url) => {
  const answer = await create(url);
  expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining('url')]);
});

it('rejects an endpoint with a host that is not public, on creation and update', async () => {
  expect(FORBIDDEN_URLS.length).toBeGreaterThanOrEqual(32);
  const { id } = (await create('https://93.184.215.14/')).json();
  for (const host of FORBIDDEN_HOSTS) {
    const inUrl = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
    const url = `http://${inUrl}/`;
    const moved = await api.call('PATCH', `/webhooks/endpoints/${id}`, { body: { url } });
    expect([host, (await create(url)).statusCode, moved.statusCode]).toEqual([host, 400, 400]);
  }
});
