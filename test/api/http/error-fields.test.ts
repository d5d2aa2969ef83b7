import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

/** `errors` and `request_id` of error bodies. */

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const post = (path: string, body: object) => api.call('POST', path, { body: JSON.stringify(body) });

it('name every field at fault, the first of them in detail', async () => {
  const answer = await post('/webhooks/endpoints', { trigger_events: ['email.newer'], description: 5 });
  expect(answer.statusCode).toBe(400);
  const { detail, errors } = answer.json<{ detail: string; errors: { path: string; message: string }[] }>();
  expect(errors.map(({ path }) => path).sort()).toEqual(['description', 'trigger_events.0', 'url']);
  expect(detail).toBe(`${errors[0]?.path} ${errors[0]?.message}`);
});

it.each([
  [
    'a rule beyond the schema',
    '/webhooks/endpoints',
    { url: 'ftp://example.com', trigger_events: ['email.new'] },
    'url',
  ],
  ['a parameter', '/api-keys', { name: 'x', expires_at: '2001-01-01T00:00:00Z' }, 'expires_at'],
])('name the field of %s', async (_, path, body, field) => {
  const answer = await post(path, body);
  expect(answer.json()).toMatchObject({
    status: 400,
    errors: [{ path: field, message: expect.stringMatching(/^\w/) }],
  });
});

it('name a parameter of the query', async () => {
  const answer = await api.call('GET', '/accounts?limit=many');
  expect(answer.json()).toMatchObject({ errors: [{ path: 'limit', message: 'must be an integer' }] });
});

it.each(['/emails?before=', '/threads?after=', '/webhooks/conversations?since=', '/audit?until='])(
  'name a date with the name of a time zone: %s',
  async (path) => {
    const date = encodeURIComponent('2026-01-31T09:30:00+01:00[Europe/Berlin]');
    const answer = await api.call('GET', `${path}${date}`);
    expect([path, answer.statusCode]).toEqual([path, 400]);
    const field = /(\w+)=$/.exec(path)?.[1];
    expect(answer.json()).toMatchObject({ errors: [{ path: field }] });
  },
);

it('name the date of a body with the name of a time zone', async () => {
  const answer = await post('/api-keys', { name: 'x', expires_at: '2126-01-31T09:30:00Z[UTC]' });
  expect(answer.json()).toMatchObject({ status: 400, errors: [{ path: 'expires_at' }] });
});

it('name no field where none is known', async () => {
  const answer = await api.call('POST', '/api-keys', { body: '[]' });
  expect(answer.json()).not.toHaveProperty('errors');
});

it('have the id of the request, the given one too', async () => {
  const headers = { 'x-request-id': 'order-17' };
  for (const path of ['/accounts/acc_none', '/nowhere', '/accounts?limit=many']) {
    const answer = await api.call('GET', path, { headers });
    expect(answer.json()).toMatchObject({ request_id: 'order-17' });
    expect((await api.call('GET', path)).json()).toMatchObject({ request_id: expect.stringMatching(/\S{8}/) });
  }
});
