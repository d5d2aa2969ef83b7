import { describe, expect, it } from '@jest/globals';
import type { PersonInvited, Role } from '../../src/contract/access/person.ts';
import type { ErrorBody } from '../../src/contract/errors.ts';
import { apiUnderTest } from '../helpers/product/api-under-test.ts';

const ORIGIN = 'http://127.0.0.1:3000';
const PASSWORD = 'correct horse battery';

describe('the last way in', () => {
  it('stays: the last key with full access, or the last admin with a password', async () => {
    const fresh = await apiUnderTest();
    const { call } = fresh;
    const status = async (...args: Parameters<typeof call>) => (await call(...args)).statusCode;
    const [first] = (await fresh.get<{ data: { id: string }[] }>('/api-keys')).data;
    const firstKey = `/api-keys/${first?.id ?? ''}`;
    // none of these administers, or not for ever
    await call('POST', '/api-keys', { body: { name: 'reads', permissions: 'read' } });
    await call('POST', '/api-keys', { body: { name: 'ends', expires_at: '2099-01-01T00:00:00.000Z' } });
    const person = (name: string, role: Role) => ({ body: { name, email: `${name}@example.test`, role } });
    const ada = (await call('POST', '/persons', person('ada', 'admin'))).json<PersonInvited>();
    await call('POST', '/persons', person('grace', 'operator'));
    const refused = await call('DELETE', firstKey);
    expect([refused.statusCode, refused.json<ErrorBody>().detail]).toEqual([
      403,
      expect.stringMatching(/^no one could/),
    ]);

    const origin = { origin: ORIGIN, host: '127.0.0.1:3000' };
    const accepted = await fresh.app.inject({
      ...{ method: 'POST', url: '/sign-in/invitation/accept', headers: origin },
      payload: { token: new URL(ada.url).hash.slice(1), password: PASSWORD },
    });
    expect(accepted.statusCode).toBe(204);
    const signedIn = await fresh.app.inject({
      ...{ method: 'POST', url: '/sign-in/password', headers: origin },
      payload: { email: 'ada@example.test', password: PASSWORD },
    });
    const headers = { ...origin, cookie: String(signedIn.headers['set-cookie']).split(';')[0] ?? '' };
    const asAda = async (method: 'DELETE' | 'PATCH' | 'POST', path: string, payload?: object) =>
      (await fresh.app.inject({ method, url: `/api/v1${path}`, headers, ...(payload ? { payload } : {}) })).statusCode;
    expect(await asAda('DELETE', firstKey)).toBe(200);
    const self = `/persons/${ada.id}`;
    expect(await asAda('DELETE', self)).toBe(403);
    expect(await asAda('PATCH', self, { role: 'operator' })).toBe(403);
    expect(await asAda('POST', `${self}/reset-password`)).toBe(403);
    expect(await asAda('POST', '/api-keys', { name: 'another' })).toBe(200);
    expect(await asAda('DELETE', self)).toBe(200);
    expect(await status('GET', '/persons')).toBe(401);
    await fresh.close();
  });

  it('stays when two are removed at the same time', async () => {
    const fresh = await apiUnderTest();
    const made = await fresh.call('POST', '/api-keys', { body: { name: 'second' } });
    const [first] = (await fresh.get<{ data: { id: string }[] }>('/api-keys')).data;
    const ids = [first?.id ?? '', made.json<{ id: string }>().id];
    const calls = ids.map((id) => fresh.call('DELETE', `/api-keys/${id}`));
    const statuses = (await Promise.all(calls)).map(({ statusCode }) => statusCode).sort((a, b) => a - b);
    expect(statuses[0]).toBe(200);
    expect([401, 403]).toContain(statuses[1]);
    const { rows } = await fresh.database.pool.query('select from api_keys');
    expect(rows).toHaveLength(1);
    await fresh.close();
  });
});
