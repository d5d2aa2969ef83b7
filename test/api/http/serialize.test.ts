import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Type from 'typebox';
import { compileSerializer } from '../../../src/api/http/serialize.ts';
import { Nullable } from '../../../src/contract/common.ts';
import { newId } from '../../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

const Item = Type.Object({ id: Type.String(), note: Type.Optional(Nullable(Type.String())) });
const schema = Type.Object({
  data: Type.Array(Item),
  first: Nullable(Item),
  free: Type.Record(Type.String(), Type.String()),
  any: Type.Unsafe<Record<string, unknown>>({ type: 'object' }),
});

describe('the serializer of responses', () => {
  const written = (value: unknown) =>
    JSON.parse(compileSerializer({ schema, method: 'GET', url: '/' })(value)) as unknown;

  it('sends what the schema names, at every depth', () => {
    expect(
      written({
        data: [{ id: 'a', note: null, secret: 1 }, { id: 'b' }],
        first: { id: 'a', secret: 1 },
        free: { any: 'key' },
        any: { deep: { er: 1 } },
        secret: 1,
      }),
    ).toEqual({
      data: [{ id: 'a', note: null }, { id: 'b' }],
      first: { id: 'a' },
      free: { any: 'key' },
      any: { deep: { er: 1 } },
    });
  });

  it('does not convert values, which would hide wrong ones', () => {
    expect(written({ data: [], first: null, free: {}, any: {} })).toMatchObject({ first: null });
    expect(written({ data: [{ id: 5 }], first: null, free: {}, any: {} })).toMatchObject({ data: [{ id: 5 }] });
  });
});

describe('a response', () => {
  let api: ApiUnderTest;
  beforeAll(async () => {
    const email = { object: 'EmailSent', id: newId('email'), message_id: '<a@b>', tracking_id: null } as const;
    api = await apiUnderTest({
      commands: { sendEmail: async (account_id) => ({ ...email, account_id, attempts: 3 }) },
    });
  });
  afterAll(() => api.close());

  it('holds nothing that its schema does not name', async () => {
    const account = await storeAccount(api.database);
    const body = { to: [{ email: 'ada@example.com' }], subject: 'Hello' };
    const { attempts } = (await api.call('POST', `/${account}/emails/send`, { body })).json<{ attempts?: number }>();
    expect(attempts).toBeUndefined();
  });
});
