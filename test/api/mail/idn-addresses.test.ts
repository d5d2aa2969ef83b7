import { afterAll, beforeAll, describe, expect, it, test } from '@jest/globals';
import { compileValidator } from '../../../src/api/http/validation.ts';
import { SendInput } from '../../../src/contract/sending.ts';
import { storeEmail } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

describe('filters find an address in both forms of its domain', () => {
  let api: ApiUnderTest;
  let account: string;
  let id: string;
  beforeAll(async () => {
    api = await apiUnderTest();
    account = await storeAccount(api.database);
    ({ id } = await storeEmail(api.database, account, {
      from: 'ada@bücher.example',
      to: ['jörg@bücher.example'],
      subject: 'Trip',
    }));
    await storeEmail(api.database, account, { from: 'ada@other.example', subject: 'Other' });
  });
  afterAll(() => api.close());

  it.each([
    ['from', 'ada@bücher.example'],
    ['from', 'Ada@xn--bcher-kva.example'],
    ['from', 'ada@BÜCHER.EXAMPLE'],
    ['to', 'jörg@xn--bcher-kva.example'],
    ['any_email', 'ada@xn--bcher-kva.example'],
    ['any_email', 'x@y.example,jörg@xn--bcher-kva.example'],
    ['q', 'ada@xn--bcher-kva.example'],
    ['q', 'bücher.example'],
  ])('%s=%s', async (name, value) => {
    const page = await api.get<{ data: { id: string }[] }>(
      `/${account}/emails?${new URLSearchParams({ [name]: value }).toString()}`,
    );
    expect(page.data.map((email) => email.id)).toEqual([id]);
  });
});

describe('addresses of a send', () => {
  const validate = compileValidator({ schema: SendInput, httpPart: 'body', method: 'POST', url: '/' });
  const errorOf = (email: string): string | undefined =>
    (validate({ to: [{ email }] }) as { error?: { detail: string } }).error?.detail;

  test.each([
    'ada@bücher.example',
    'ada@xn--bcher-kva.example',
    'jörg@mail.example',
    'jörg@bücher.example',
    '用户@例子.测试',
    'ada@[192.0.2.1]',
    '"ada b"@mail.example',
    'ada@mail.example',
  ])('%s is accepted', (email) => {
    expect(errorOf(email)).toBeUndefined();
  });

  test.each([
    'ada',
    'ada@',
    '@bücher.example',
    'ada@bücher example',
    'ada@bücher..example',
    'a b@bücher.example',
    'ada@-b.example',
  ])('%j is refused by the name of its field', (email) => {
    expect(errorOf(email)).toBe('to.0.email must be an email address');
  });
});
