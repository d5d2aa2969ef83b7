import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { checkJson } from '../../../src/api/http/json-bounds.ts';
import { newId } from '../../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

const MiB = 1024 * 1024;

describe('JSON', () => {
  const limits = { depth: 4, nodes: 20 };
  const checked = (text: string) =>
    checkJson(text, limits).then(
      () => 'ok',
      (error: unknown) => (error as { detail: string }).detail,
    );

  it.each([
    '[[[[]]]]',
    '{"a":{"b":{"c":{"d":1}}}}',
    JSON.stringify('[{,:'.repeat(100)),
    JSON.stringify({ a: '\\"[[[[[['.repeat(100), '"[[[[[[': '\\' }),
    `[${Array(20).fill('1').join()}]`,
    '',
    'nonsense',
    '"never ends [[[[[[',
    '"ends in a backslash \\',
    ']]]]]][',
  ])('within the limits, or none at all, is left to the parser: %s', async (text) => {
    expect(await checked(text)).toBe('ok');
  });

  it.each([
    ['[[[[[]]]]]', /deeper than 4/],
    ['['.repeat(1_000_000), /deeper than 4/],
    ['{"a":'.repeat(5), /deeper than 4/],
    [`"${'\\\\'.repeat(3)}",${'['.repeat(5)}`, /deeper than 4/],
    [`[${Array(22).fill('1').join()}]`, /more than 20 keys and values/],
    [`{${Array(22).fill('"a":1').join()}}`, /more than 20 keys and values/],
    [','.repeat(1_000_000), /more than 20 keys and values/],
  ])('beyond them is refused (%#)', async (text, detail) => {
    expect(await checked(text)).toMatch(detail);
  });

  it('is scanned in turns, between which other calls are served', async () => {
    let turns = 0;
    let over = false;
    const count = () => {
      turns += 1;
      if (!over) setImmediate(count);
    };
    setImmediate(count);
    await checkJson(`"${'\\"'.repeat(2_000_000)}"`, limits);
    over = true;
    expect(turns).toBeGreaterThan(10);
  });
});

describe('a body', () => {
  let api: ApiUnderTest;
  let account: string;
  beforeAll(async () => {
    api = await apiUnderTest({ bodyBytes: 40 * MiB });
    account = await storeAccount(api.database);
  });
  afterAll(() => api.close());

  const headers = { 'content-type': 'application/json' };
  const detailOf = async (path: string, body: string) => {
    const response = await api.call('POST', path, { body, headers });
    expect(response.statusCode).toBe(400);
    return response.json().detail as string;
  };
  const send = () => `/${account}/emails/send`;

  it('of 700,000 unknown keys is rejected before it is parsed', async () => {
    const keys = Array.from({ length: 700_000 }, (_, at) => `"k${at}":0`).join();
    expect(await detailOf(send(), `{${keys}}`)).toMatch(/more than \d+ keys and values/);
  });

  it.each([33, 10_000, 1_000_000])('that is nested %i deep is rejected', async (depth) => {
    expect(await detailOf(send(), `{"to":${'['.repeat(depth)}`)).toMatch(/nested deeper than 32/);
    if (depth < 500_000) expect(await detailOf('/api-keys', '{"a":'.repeat(depth))).toMatch(/nested deeper than 32/);
  });

  it('of more than 1 MiB is for sending and drafts only', async () => {
    const large = JSON.stringify({ name: 'x', html: 'x'.repeat(2 * MiB) });
    for (const path of ['/api-keys', '/auth/intent', '/webhooks/endpoints', `/${account}/folders`]) {
      expect(await detailOf(path, large)).toBe(`the body is larger than ${MiB} bytes`);
    }
    expect(await detailOf(send(), large)).not.toMatch(/larger/);
    const patched = await api.call('PATCH', `/${account}/drafts/${newId('draft')}`, { body: large, headers });
    expect(patched.json().detail).not.toMatch(/larger/);
  });

  it('with as many recipients, files and headers as are allowed passes', async () => {
    const people = (length: number) =>
      Array.from({ length }, (_, at) => ({ email: `a${at}@example.test`, display_name: 'x' }));
    const body = {
      to: people(500),
      reply_to: people(500),
      custom_headers: Array.from({ length: 100 }, (_, at) => ({ name: `X-${at}`, value: 'x' })),
      attachments: Array.from({ length: 100 }, () => ({ content: '', filename: 'a', content_type: 'a/b', cid: 'x' })),
    };
    await expect(checkJson(JSON.stringify(body), { depth: 32, nodes: 20_000 })).resolves.toBeUndefined();
  });
});
