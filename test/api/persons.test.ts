import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Person, PersonInvited, Role } from '../../src/contract/access/person.ts';
import type { Session } from '../../src/contract/access/session.ts';
import type { AuditRecordList } from '../../src/contract/audit.ts';
import type { ErrorBody } from '../../src/contract/errors.ts';
import { admitPerson } from '../../src/db/access/persons.ts';
import { createSession } from '../../src/db/access/sessions.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';

/** Invited people: the link, the password, the sessions, and what attackers try. */

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const ORIGIN = 'http://127.0.0.1:3000';
const PASSWORD = 'correct horse battery';

let people = 0;
/** Attempts are limited by network. */
let networks = 0;
const elsewhere = () => `198.51.100.${(networks = (networks + 1) % 250)}`;

async function invite(role: Role = 'viewer'): Promise<PersonInvited & { email: string; token: string }> {
  const body = { name: `Person ${(people += 1)}`, email: `person-${people}@example.test`, role };
  const answer = await api.call('POST', '/persons', { body });
  expect(answer.statusCode).toBe(200);
  const invited = answer.json<PersonInvited>();
  return { ...invited, email: body.email, token: tokenOf(invited) };
}

const tokenOf = ({ url }: PersonInvited) => new URL(url).hash.slice(1);

/** A call of the sign-in page. */
function page(
  path: string,
  payload: object,
  { from = elsewhere(), headers = {} }: { from?: string; headers?: object } = {},
) {
  return api.app.inject({
    ...{ method: 'POST', url: `/sign-in${path}`, remoteAddress: from, payload },
    headers: { origin: ORIGIN, host: '127.0.0.1:3000', ...headers },
  });
}

const accept = (token: string, password = PASSWORD) => page('/invitation/accept', { token, password });
const signIn = (email: string, password = PASSWORD, options = {}) => page('/password', { email, password }, options);

/** The cookie of a sign-in. */
async function cookieOf(email: string, password = PASSWORD): Promise<string> {
  const answer = await signIn(email, password);
  expect([answer.statusCode, answer.body]).toEqual([204, '']);
  return String(answer.headers['set-cookie']).split(';')[0] ?? '';
}

/** Someone with a password, who is signed in. `browser`: the cookie of the browser in which the password was chosen. */
async function member(role: Role = 'viewer') {
  const person = await invite(role);
  const accepted = await accept(person.token);
  expect(accepted.statusCode).toBe(204);
  const set = String(accepted.headers['set-cookie']);
  expect(set).toMatch(/^email_api_browser=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
  return { ...person, browser: set.split(';')[0] ?? '', cookie: await cookieOf(person.email) };
}

/** A call with a session. */
function as(cookie: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) {
  return api.app.inject({
    ...{ method, url: `/api/v1${path}`, headers: { cookie, origin: ORIGIN, host: '127.0.0.1:3000' } },
    ...(body ? { payload: body } : {}),
  });
}
const statusOf = async (cookie: string) => (await as(cookie, 'GET', '/session')).statusCode;
const listed = async (id: string) =>
  (await api.get<{ data: Person[] }>('/persons?limit=250')).data.find((one) => one.id === id);
const sameFor = (body: ErrorBody) => ({ ...body, request_id: '' });

describe('an invitation', () => {
  it('is offered on the sign-in page once someone is invited', async () => {
    const fresh = await apiUnderTest();
    const options = async () => (await fresh.app.inject({ url: '/sign-in/options' })).json<object>();
    expect(await options()).toEqual({ oidc: false, password: false });
    await fresh.call('POST', '/persons', { body: { name: 'Ada', email: 'ada@example.test', role: 'admin' } });
    expect(await options()).toEqual({ oidc: false, password: true });
    await fresh.close();
  });

  it('has a link of which only a hash is stored, for seven days', async () => {
    const { url, token, ...person } = await invite('operator');
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:3000\/sign-in\/invitation#[\w-]{43}$/);
    expect(await listed(person.id)).toEqual({
      ...{ object: 'Person', id: person.id, name: person.name, email: person.email, role: 'operator' },
      ...{ source: 'invitation', created_at: expect.any(String), last_signed_in_at: null },
      invitation_expires_at: person.invitation_expires_at,
    });
    const days = (new Date(person.invitation_expires_at ?? 0).getTime() - Date.now()) / 86_400_000;
    expect(Math.round(days * 100)).toBe(700);
    const { rows } = await api.database.pool.query<{ row: string }>('select i::text as row from invited_persons i');
    const stored = JSON.stringify(rows);
    for (const form of [token, Buffer.from(token).toString('hex'), Buffer.from(token, 'base64url').toString('hex')])
      expect(stored).not.toContain(form);
  });

  it('says whom it is for, and takes a password of twelve characters, once', async () => {
    const { token, name, email, id } = await invite();
    expect((await page('/invitation', { token })).json()).toEqual({ name, email });
    for (const password of ['', 'elevenchars', 'x'.repeat(201)]) {
      const refused = await accept(token, password);
      expect([refused.statusCode, refused.json<ErrorBody>().errors?.[0]?.path]).toEqual([400, 'password']);
    }
    expect(await statusesOf([accept(token), accept(token), accept(token)])).toEqual([204, 404, 404]);
    expect((await page('/invitation', { token })).statusCode).toBe(404);
    expect((await accept(token, 'another password')).statusCode).toBe(404);
    expect(await listed(id)).toMatchObject({ invitation_expires_at: null });
    await cookieOf(email);
    expect((await signIn(email, 'another password')).statusCode).toBe(401);
  });

  it('ends with its time, when it is replaced, and with its person', async () => {
    const { token, id, email } = await invite();
    const replaced = (await api.call('POST', `/persons/${id}/reset-password`)).json<PersonInvited>();
    expect((await accept(token)).statusCode).toBe(404);
    const gone = await invite();
    await api.call('DELETE', `/persons/${gone.id}`);
    expect((await accept(gone.token)).statusCode).toBe(404);
    await api.database.pool.query('update invited_persons set link_expires_at = now() where id = $1', [id]);
    const late = await accept(tokenOf(replaced));
    expect([late.statusCode, (await page('/invitation', { token: tokenOf(replaced) })).statusCode]).toEqual([404, 404]);
    expect(late.json<ErrorBody>().detail).toMatch(/ask for a new one/);
    expect((await signIn(email)).statusCode).toBe(401);
    for (const made of ['', 'x', 'A'.repeat(43)]) expect((await accept(made)).statusCode).toBe(404);
  });

  it('exists once for an address, in any case, and once for an Idempotency-Key', async () => {
    const { email } = await invite();
    const body = { name: 'Again', email: email.toUpperCase(), role: 'viewer' };
    const again = await api.call('POST', '/persons', { body });
    expect([again.statusCode, again.json<ErrorBody>().detail]).toEqual([409, expect.stringMatching(/^email /)]);
    const fresh = { ...body, email: 'keyed@example.test' };
    const headers = { 'idempotency-key': 'invite-once' };
    const [one, two] = [
      await api.call('POST', '/persons', { body: fresh, headers }),
      await api.call('POST', '/persons', { body: fresh, headers }),
    ];
    expect(two.json()).toEqual(one.json());
    const both = [0, 1].map(() => api.call('POST', '/persons', { body: { ...body, email: 'race@example.test' } }));
    expect(await statusesOf(both)).toEqual([200, 409]);
    for (const [wrong, path] of [
      [{ ...fresh, email: 'no address' }, 'email'],
      [{ ...fresh, name: '' }, 'name'],
      [{ ...fresh, role: 'owner' }, 'role'],
    ] as const) {
      const answer = await api.call('POST', '/persons', { body: wrong });
      expect([answer.statusCode, answer.json<ErrorBody>().errors?.[0]?.path]).toEqual([400, path]);
    }
  });
});

/** The statuses of calls at the same time, in ascending order. */
async function statusesOf(calls: PromiseLike<{ statusCode: number }>[]): Promise<number[]> {
  return (await Promise.all(calls)).map(({ statusCode }) => statusCode).sort((a, b) => a - b);
}

describe('a sign-in with a password', () => {
  it('begins a session of the person for 12 hours, in place of an earlier one', async () => {
    const { email, name, id, cookie } = await member('operator');
    const answer = await signIn(email.toUpperCase(), PASSWORD, { headers: { cookie } });
    const set = String(answer.headers['set-cookie']);
    expect(set).toMatch(/^email_api_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Expires=/);
    const session = (await as(set.split(';')[0] ?? '', 'GET', '/session')).json<Session>();
    expect(session).toMatchObject({ api_key_id: null, permissions: 'operate', accounts: null });
    expect(session.person).toEqual({ id, name: `${name} <${email}>`, source: 'invitation' });
    const hours = (new Date(session.expires_at ?? 0).getTime() - Date.now()) / 3_600_000;
    expect(Math.round(hours * 10)).toBe(120);
    expect(await statusOf(cookie)).toBe(401);
    expect(new Date((await listed(id))?.last_signed_in_at ?? 0).getTime()).toBeGreaterThan(Date.now() - 60_000);
  });

  it.each([
    ['admin', [200, 200, 200]],
    ['operator', [200, 200, 403]],
    ['viewer', [200, 403, 403]],
  ] as const)('gives %s what the role may', async (role, statuses) => {
    const { cookie } = await member(role);
    const endpoint = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new'] };
    const answers = [
      await as(cookie, 'GET', '/persons'),
      await as(cookie, 'POST', '/webhooks/endpoints', endpoint),
      await as(cookie, 'POST', '/persons', { name: 'More', email: `by-${role}@example.test`, role: 'admin' }),
    ];
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(statuses);
  });

  it('does not say whether an address is that of a person, by text or by time', async () => {
    const { email } = await member();
    const { email: invited } = await invite();
    const took: number[] = [];
    const bodies: ErrorBody[] = [];
    for (const address of [email, 'unknown@example.test', invited]) {
      const times: number[] = [];
      for (let n = 0; n < 3; n++) {
        const began = performance.now();
        const answer = await signIn(address, 'a wrong password');
        times.push(performance.now() - began);
        expect([answer.statusCode, answer.headers['set-cookie']]).toEqual([401, undefined]);
        bodies.push(sameFor(answer.json()));
      }
      took.push(Math.min(...times));
    }
    expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
    // without the comparison it would be a hundredth
    const [known = 0, ...others] = took;
    for (const other of others) expect(other).toBeGreaterThan(known / 2);
  });

  it.each([
    ['no origin', { origin: '' }],
    ['another site', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://127.0.0.1:4000' }],
    ['a frame of another site', { 'sec-fetch-site': 'cross-site' }],
    ['another host of the domain', { 'sec-fetch-site': 'same-site' }],
  ])('is refused to pages of other origins: %s', async (_, headers) => {
    const { email, token } = await invite();
    for (const [path, body] of [
      ['/password', { email, password: PASSWORD }],
      ['/invitation', { token }],
      ['/invitation/accept', { token, password: PASSWORD }],
    ] as const) {
      const answer = await page(path, body, { headers });
      expect([answer.statusCode, answer.headers['set-cookie']]).toEqual([401, undefined]);
    }
    const form = { headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' } };
    expect((await page('/password', { email }, form)).statusCode).toBe(400);
    expect((await accept(token)).statusCode).toBe(204);
  });

  it('is refused after ten wrong passwords from one network, and to that network alone', async () => {
    const { email } = await member();
    const [attacker, owner] = [elsewhere(), elsewhere()];
    const wrong = () => signIn(email, 'a wrong password', { from: attacker });
    expect(await statusesOf(Array.from({ length: 12 }, wrong))).toEqual([...Array<number>(10).fill(401), 429, 429]);
    const refused = await signIn(email, PASSWORD, { from: attacker });
    expect(refused.statusCode).toBe(429);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(600);
    expect((await signIn(email, PASSWORD, { from: owner })).statusCode).toBe(204);
    expect((await signIn((await member()).email, PASSWORD, { from: attacker })).statusCode).toBe(204);
  });

  it('cannot be closed by guesses to a browser in which the person has signed in, from any network', async () => {
    const { email, id, browser } = await member();
    const other = await member();
    for (let n = 0; n < 11; n++) {
      const guesses = Array.from({ length: 10 }, () => signIn(email, 'a wrong password', { from: `203.0.113.${n}` }));
      expect(await statusesOf(guesses)).toEqual(Array<number>(10).fill(n < 10 ? 401 : 429));
    }
    const attempt = async (cookie: string, from = '203.0.113.1') =>
      (await signIn(email, PASSWORD, { from, headers: { cookie } })).statusCode;
    expect(await attempt('', elsewhere())).toBe(429);
    expect(await attempt(other.browser)).toBe(429);
    expect(await attempt(browser)).toBe(204);
    // a mark ends with the password: a thief of it has no more attempts than others
    const { url } = (await api.call('POST', `/persons/${id}/reset-password`)).json<PersonInvited>();
    await accept(new URL(url).hash.slice(1));
    expect(await attempt(browser)).toBe(429);
  }, 120_000);
});

describe('a password', () => {
  it('is replaced by its person, which ends their other sessions', async () => {
    const { email, cookie } = await member('viewer');
    const other = await cookieOf(email);
    const replace = (current_password: string, new_password: string) =>
      as(cookie, 'POST', '/session/password', { current_password, new_password });
    for (const [current, chosen, path] of [
      ['a wrong password', 'a new password', 'current_password'],
      [PASSWORD, 'too short', 'new_password'],
    ] as const) {
      const refused = await replace(current, chosen);
      expect([refused.statusCode, refused.json<ErrorBody>().errors?.[0]?.path]).toEqual([400, path]);
    }
    expect([await statusOf(cookie), await statusOf(other)]).toEqual([200, 200]);
    expect((await replace(PASSWORD, 'a new password')).statusCode).toBe(204);
    expect([await statusOf(cookie), await statusOf(other)]).toEqual([200, 401]);
    expect((await signIn(email)).statusCode).toBe(401);
    await cookieOf(email, 'a new password');
    const body = { current_password: PASSWORD, new_password: PASSWORD };
    expect((await api.call('POST', '/session/password', { body })).statusCode).toBe(403);
  });

  it('cannot be guessed with a stolen session', async () => {
    const { cookie } = await member();
    const guess = () => as(cookie, 'POST', '/session/password', { current_password: 'x', new_password: PASSWORD });
    const statuses = await statusesOf(Array.from({ length: 11 }, guess));
    expect(statuses).toEqual([...Array<number>(10).fill(400), 429]);
  });
});

describe('an administrator', () => {
  it('changes a role, which ends the sessions of the person', async () => {
    const { id, email, cookie } = await member('admin');
    await api.call('PATCH', `/persons/${id}`, { body: { role: 'admin' } });
    expect(await statusOf(cookie)).toBe(200);
    const changed = await api.call('PATCH', `/persons/${id}`, { body: { role: 'viewer' } });
    expect([changed.statusCode, changed.json<Person>().role]).toEqual([200, 'viewer']);
    expect((await as(cookie, 'POST', '/api-keys', { name: 'escalation' })).statusCode).toBe(401);
    const again = await cookieOf(email);
    expect((await as(again, 'GET', '/session')).json<Session>().permissions).toBe('read');
  });

  it('resets a password: sessions and password end, and a new link is the only way', async () => {
    const { id, email, cookie } = await member();
    const reset = (await api.call('POST', `/persons/${id}/reset-password`)).json<PersonInvited>();
    expect(await statusOf(cookie)).toBe(401);
    expect((await signIn(email)).statusCode).toBe(401);
    expect((await accept(tokenOf(reset), 'a second password')).statusCode).toBe(204);
    await cookieOf(email, 'a second password');
  });

  it('removes a person, whose sessions end immediately and whose address is free', async () => {
    const { id, email, name, cookie } = await member('admin');
    expect((await api.call('DELETE', `/persons/${id}`)).json()).toEqual({ object: 'PersonRemoved', id });
    expect(await statusOf(cookie)).toBe(401);
    expect((await signIn(email)).statusCode).toBe(401);
    expect(await listed(id)).toBeUndefined();
    for (const call of [
      api.call('DELETE', `/persons/${id}`),
      api.call('PATCH', `/persons/${id}`, { body: { role: 'admin' } }),
      api.call('POST', `/persons/${id}/reset-password`),
    ])
      expect((await call).statusCode).toBe(404);
    expect((await api.call('POST', '/persons', { body: { name, email, role: 'viewer' } })).statusCode).toBe(200);
  });

  it('may remove themself: keys still work', async () => {
    const { id, cookie } = await member('admin');
    expect((await as(cookie, 'DELETE', `/persons/${id}`)).statusCode).toBe(200);
    expect(await statusOf(cookie)).toBe(401);
    expect((await api.call('GET', '/persons')).statusCode).toBe(200);
  });

  it('sees people of the identity provider, removes them, and changes nothing of what it decides', async () => {
    const { db } = api.database;
    const id = await admitPerson(db, {
      ...{ issuer: 'https://id.example', subject: 'ada', name: 'Ada', email: 'person-1@example.test' },
      permissions: 'operate',
    });
    const cookie = `email_api_session=${(await createSession(db, id)).token}`;
    expect((await as(cookie, 'GET', '/session')).json<Session>().person?.source).toBe('identity_provider');
    expect(await listed(id)).toMatchObject({ role: 'operator', source: 'identity_provider', name: 'Ada' });
    const role = await api.call('PATCH', `/persons/${id}`, { body: { role: 'admin' } });
    expect([role.statusCode, role.json<ErrorBody>().errors?.[0]?.path]).toEqual([400, 'role']);
    expect((await api.call('POST', `/persons/${id}/reset-password`)).statusCode).toBe(400);
    const own = { current_password: PASSWORD, new_password: PASSWORD };
    expect((await as(cookie, 'POST', '/session/password', own)).statusCode).toBe(403);
    expect((await api.call('DELETE', `/persons/${id}`)).statusCode).toBe(200);
    expect(await statusOf(cookie)).toBe(401);
  });

  it('is named in the audit log, with whom it was about', async () => {
    const admin = await member('admin');
    const label = (person: { name: string; email: string }) => `${person.name} <${person.email}>`;
    const ada = (
      await as(admin.cookie, 'POST', '/persons', { name: 'Ada', email: 'audited@example.test', role: 'viewer' })
    ).json<PersonInvited & { email: string }>();
    await accept(tokenOf(ada));
    const cookie = await cookieOf(ada.email);
    const own = { current_password: PASSWORD, new_password: `${PASSWORD} 2` };
    expect((await as(cookie, 'POST', '/session/password', own)).statusCode).toBe(204);
    await as(cookie, 'PATCH', `/persons/${ada.id}`, { role: 'admin' });
    await as(admin.cookie, 'PATCH', `/persons/${ada.id}`, { role: 'operator' });
    await as(admin.cookie, 'POST', `/persons/${ada.id}/reset-password`);
    await as(admin.cookie, 'DELETE', `/persons/${ada.id}`);
    const { data } = await api.get<AuditRecordList>(`/audit?object_id=${ada.id}`);
    const [byAdmin, byAda] = [
      [label(admin), admin.id],
      [label(ada), ada.id],
    ];
    expect(data.map((one) => [one.action, one.outcome, one.actor, one.person_id]).reverse()).toEqual([
      ['person.invite', 'done', ...byAdmin],
      ['person.accept', 'done', ...byAda],
      ['person.change_password', 'done', ...byAda],
      ['person.update', 'refused', ...byAda],
      ['person.update', 'done', ...byAdmin],
      ['person.reset', 'done', ...byAdmin],
      ['person.remove', 'done', ...byAdmin],
    ]);
    // a call that is refused before its handler does not look the name up
    const named = data.filter(({ outcome }) => outcome === 'done').map(({ object_name: name }) => name);
    expect(new Set(named)).toEqual(new Set([label(ada)]));
    const [signedIn] = (await api.get<AuditRecordList>(`/audit?person_id=${ada.id}&action=session.create`)).data;
    expect(signedIn).toMatchObject({ outcome: 'done', actor: label(ada), object_id: null });
    const { rows } = await api.database.pool.query<{ row: string }>(
      'select r::text as row from audit_records r union all select i::text from idempotency_keys i',
    );
    expect(JSON.stringify(rows)).not.toMatch(/correct horse|a wrong password/);
  });
});
