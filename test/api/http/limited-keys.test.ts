import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LightMyRequestResponse } from 'fastify';
import { requireReach } from '../../../src/api/http/access.ts';
import { ApiError } from '../../../src/contract/errors.ts';
import { EVENT_TYPES } from '../../../src/contract/events.ts';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { newId } from '../../../src/new-id.ts';
import { bodyOf, fill, furnish, type Route, routesOf } from '../../helpers/product/all-routes.ts';
import { type ApiUnderTest, apiUnderTest, type CallOptions } from '../../helpers/product/api-under-test.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/*
 * Over all routes: a key of one account sees no other account, and a read-only key changes nothing.
 */

interface Data {
  data: { id: string; account_id: string }[];
}

let api: ApiUnderTest;
let routes: Route[];
/** the account of the key, and another */
let own: Record<string, string>;
let other: Record<string, string>;
/** the event and the delivery of each, by account */
const happened = new Map<string, { event: string; delivery: string }>();
let key: string;
let readKey: string;
const commanded: string[] = [];

beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      connectMailbox: async ({ account_id, name }) => {
        commanded.push(`connect ${account_id}`);
        if (name === 'held') throw new ApiError('already_exists', 'another account holds this mailbox');
        return account_id ?? 'none';
      },
      retryDelivery: async (id) => void commanded.push(`retry ${id}`),
      listRuns: async () => ({ runs: [], next: null }),
    },
  });
  routes = routesOf(api);
  own = await furnish(api);
  other = await furnish(api);
  const { db, pool } = api.database;
  await api.call('POST', '/webhooks/endpoints', { body: ENDPOINT });
  for (const { account_id: accountId = '' } of [own, other]) {
    const event = { type: 'account.add' as const, objectId: accountId, data: { account: {} }, createdAt: new Date() };
    await db.transaction((tx) => recordEvents(tx, accountId, [event]));
    const { rows } = await pool.query('select id, event_id from deliveries where account_id = $1', [accountId]);
    happened.set(accountId, { event: rows[0].event_id, delivery: rows[0].id });
  }
  const limits = { expiresAt: null, accountIds: [own['account_id'] as string] };
  key = (await createApiKey(db, { name: 'one account', ...limits })).key;
  readKey = (await createApiKey(db, { name: 'reader', expiresAt: null, permissions: 'read' })).key;
});
afterAll(() => api.close());

const ENDPOINT = {
  url: 'https://hooks:canary@93.184.215.14/hook',
  trigger_events: EVENT_TYPES,
  headers: [{ name: 'Authorization', value: 'canary' }],
};

const call = (method: Route['method'], path: string, options: CallOptions = {}) =>
  api.call(method, path, { ...options, headers: { 'x-api-key': key } });
const outcome = (answer: LightMyRequestResponse) => [answer.statusCode, answer.json().type];
const bodyWithoutRequest = (answer: LightMyRequestResponse | undefined) => ({
  ...answer?.json<object>(),
  request_id: '',
});
const FORBIDDEN = [403, 'errors/forbidden'];
const NOT_FOUND = [404, 'errors/not_found'];
const idsIn = async (path: string) => (await call('GET', path)).json<Data>().data.map(({ id }) => id);
const ids = () => ({
  mine: happened.get(own['account_id'] as string) as { event: string; delivery: string },
  theirs: happened.get(other['account_id'] as string) as { event: string; delivery: string },
  own: own['account_id'] as string,
  other: other['account_id'] as string,
});

/** Checks that a route responds identically for objects of another account and for unknown ones. */
async function expectNothing(route: Route, theirs: string, unknown: string): Promise<void> {
  const [found, missing] = await Promise.all(
    [theirs, unknown].map((id) => call(route.method, route.path.replace(/\{\w+\}/, id), bodyOf(route, other))),
  );
  expect([route, ...outcome(found!)]).toEqual([route, ...NOT_FOUND]);
  expect(bodyWithoutRequest(found)).toEqual(bodyWithoutRequest(missing));
}

/** Checks that `account_ids` can name no other account, as if it did not exist. */
async function expectNoOtherAccount(path: string): Promise<void> {
  expect((await call('GET', `${path}?account_ids=${ids().own}`)).statusCode).toBe(200);
  for (const id of [ids().other, newId('account'), '']) {
    const answer = await call('GET', `${path}?account_ids=${id ? `${ids().own},${id}` : ','}`);
    expect([...outcome(answer), answer.json().detail]).toEqual([
      ...[400, 'errors/invalid_parameters'],
      `account_ids.${id ? 1 : 0} is not the id of an account`,
    ]);
  }
}

/** Checks that the upload of another key is like one that does not exist. */
async function expectNoForeignUpload(route: Route): Promise<void> {
  const theirs = (await api.call('POST', '/uploads?size=1')).json<{ id: string }>();
  await expectNothing(route, theirs.id, newId('upload'));
  expect((await api.call('GET', `/uploads/${theirs.id}`)).statusCode).toBe(200);
}

/** Expected access of a key of some accounts to every route whose path names no account. */
const DECISIONS: Record<string, 'forbidden' | ((route: Route) => Promise<void>)> = {
  'POST /auth/intent': async ({ method, path }) => {
    const body = { provider: 'imap', credentials: { user: 'a@example.test', password: 'x' } };
    expect(outcome(await call(method, path, { body }))).toEqual(FORBIDDEN);
    expect(outcome(await call(method, path, { body: { ...body, account_id: ids().other } }))).toEqual(NOT_FOUND);
    // it may be valid for other mailboxes
    const oauth2 = { app_id: newId('oauthApp'), grant: 'client_credentials' };
    const byApp = { ...body, account_id: ids().own, credentials: { user: 'a@example.test', oauth2 } };
    expect(outcome(await call(method, path, { body: byApp }))).toEqual(FORBIDDEN);
    expect(commanded).toEqual([]);
    const held = { ...body, account_id: ids().own, name: 'held' };
    expect(outcome(await call(method, path, { body: held }))).toEqual([400, 'errors/invalid_parameters']);
    const again = await call(method, path, { body: { ...body, account_id: ids().own } });
    expect(again.json()).toMatchObject({ object: 'Account', id: ids().own });
  },
  'GET /accounts': async ({ path }) => {
    expect(await idsIn(path)).toEqual([ids().own]);
    expect(await idsIn(`${path}?search=${ids().other}`)).toEqual([]);
  },
  'GET /emails': async ({ path }) => {
    const { data } = (await call('GET', `${path}?limit=250`)).json<Data>();
    expect(new Set(data.map(({ account_id: id }) => id))).toEqual(new Set([ids().own]));
    await expectNoOtherAccount(path);
  },
  'GET /threads': async ({ path }) => {
    const { data } = (await call('GET', `${path}?limit=250`)).json<Data>();
    expect(new Set(data.map(({ account_id: id }) => id))).toEqual(new Set([ids().own]));
    await expectNoOtherAccount(path);
  },
  'GET /imports': async ({ path }) => {
    const { data } = (await call('GET', path)).json<Data>();
    expect(new Set(data.map(({ account_id: id }) => id))).toEqual(new Set([ids().own]));
    await expectNoOtherAccount(path);
  },
  'GET /lookup': async ({ path }) => {
    const { mine, theirs } = ids();
    expect(await idsIn(`${path}?q=${mine.delivery}`)).toEqual([mine.delivery]);
    for (const id of [ids().other, theirs.event, theirs.delivery]) {
      expect([id, await idsIn(`${path}?q=${id}`)]).toEqual([id, []]);
    }
  },
  'GET /webhooks/conversations': async ({ path }) => {
    const { mine, theirs } = ids();
    expect(await idsIn(path)).toEqual([mine.delivery]);
    // endpoints belong to the installation: their URLs and names are none of its business
    const { data } = (await call('GET', path)).json<{
      data: { endpoint_url: string; endpoint_name: string | null }[];
    }>();
    expect(data.map(({ endpoint_url: url, endpoint_name: name }) => [url, name])).toEqual([['', null]]);
    expect(await idsIn(`${path}?account_id=${ids().own}`)).toEqual([mine.delivery]);
    for (const query of [`account_id=${ids().other}`, `event_id=${theirs.event}`, `email_id=${ids().other}`]) {
      expect([query, await idsIn(`${path}?${query}`)]).toEqual([query, []]);
    }
  },
  'GET /webhooks/conversations/{id}': async (route) => {
    const own = await call('GET', fill(route.path, { id: ids().mine.delivery }));
    expect([own.statusCode, own.json<{ endpoint_url: string }>().endpoint_url]).toEqual([200, '']);
    await expectNothing(route, ids().theirs.delivery, newId('delivery'));
  },
  'POST /webhooks/conversations/{id}/retry': async (route) => {
    commanded.length = 0;
    await expectNothing(route, ids().theirs.delivery, newId('delivery'));
    expect(commanded).toEqual([]);
    expect((await call('POST', fill(route.path, { id: ids().mine.delivery }))).statusCode).toBe(200);
    expect(commanded).toEqual([`retry ${ids().mine.delivery}`]);
  },
  'GET /webhooks/events': async ({ path }) => {
    const { mine, theirs } = ids();
    // what other tests of this server have open holds the feed back
    await waitFor(async () => (await idsIn(path)).length > 0, { what: 'the event to be listed' });
    expect(await idsIn(path)).toEqual([mine.event]);
    expect(await idsIn(`${path}?account_id=${ids().own}&types=account.add`)).toEqual([mine.event]);
    expect(await idsIn(`${path}?account_id=${ids().other}`)).toEqual([]);
    const [found, missing] = await Promise.all(
      [theirs.event, newId('event')].map((id) => call('GET', `${path}?after=${id}`)),
    );
    expect(outcome(found!)).toEqual([400, 'errors/invalid_parameters']);
    expect(bodyWithoutRequest(found)).toEqual(bodyWithoutRequest(missing));
  },
  // every key can create a session, which has the limits of the key
  'POST /session': async ({ method, path }) => {
    const begun = await call(method, path);
    expect(begun.statusCode).toBe(200);
    const [cookie = ''] = String(begun.headers['set-cookie']).split(';');
    const listed = await api.app.inject({ url: '/api/v1/accounts', headers: { cookie } });
    expect(listed.json<Data>().data.map(({ id }) => id)).toEqual([ids().own]);
  },
  'GET /session': async ({ path }) => expect((await call('GET', path)).statusCode).toBe(200),
  'DELETE /session': async ({ method, path }) => expect((await call(method, path)).statusCode).toBe(204),
  'POST /session/password': async ({ method, path }) => {
    const body = { current_password: 'of a person', new_password: 'of a person, too' };
    expect(outcome(await call(method, path, { body }))).toEqual(FORBIDDEN);
  },
  'GET /auth/servers': async ({ path }) => {
    const asked = () => call('GET', `${path}?address=a@example.test`);
    for (let n = 0; n < 60; n++) expect((await asked()).statusCode).toBe(200);
    const refused = await asked();
    expect(outcome(refused)).toEqual([429, 'errors/too_many_requests']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  },
  'GET /webhooks/events/stream': async ({ path }) => {
    for (const id of [ids().theirs.event, newId('event')]) {
      expect(outcome(await call('GET', `${path}?after=${id}`))).toEqual([400, 'errors/invalid_parameters']);
    }
    // a stream would remain open
    expect((await call('HEAD' as Route['method'], path)).statusCode).toBe(404);
  },
  // uploads belong to the key that made them
  'POST /uploads': async ({ path }) => expect((await call('POST', `${path}?size=1`)).statusCode).toBe(201),
  'GET /uploads/{id}': (route) => expectNoForeignUpload(route),
  'PATCH /uploads/{id}': (route) => expectNoForeignUpload(route),
  'DELETE /uploads/{id}': (route) => expectNoForeignUpload(route),
  'POST /auth/links': 'forbidden',
  'GET /auth/links': 'forbidden',
  'DELETE /auth/links/{id}': 'forbidden',
  'GET /overview': 'forbidden',
  'GET /settings': 'forbidden',
  'GET /api-keys': 'forbidden',
  'POST /api-keys': 'forbidden',
  'DELETE /api-keys/{id}': 'forbidden',
  'GET /persons': 'forbidden',
  'POST /persons': 'forbidden',
  'PATCH /persons/{id}': 'forbidden',
  'DELETE /persons/{id}': 'forbidden',
  'POST /persons/{id}/reset-password': 'forbidden',
  'GET /webhooks/endpoints': 'forbidden',
  'POST /webhooks/endpoints': 'forbidden',
  'GET /webhooks/endpoints/{id}': 'forbidden',
  'PATCH /webhooks/endpoints/{id}': 'forbidden',
  'DELETE /webhooks/endpoints/{id}': 'forbidden',
  'POST /webhooks/endpoints/{id}/rotate-secret': 'forbidden',
  'POST /webhooks/endpoints/{id}/test': 'forbidden',
  'GET /webhooks/replays': 'forbidden',
  'POST /webhooks/replays': 'forbidden',
  'POST /webhooks/replays/count': 'forbidden',
  'GET /webhooks/replays/{id}': 'forbidden',
  'POST /webhooks/replays/{id}/cancel': 'forbidden',
  'GET /audit': 'forbidden',
  'POST /oauth/apps': 'forbidden',
  'GET /oauth/apps': 'forbidden',
  'GET /oauth/apps/{id}': 'forbidden',
  'PATCH /oauth/apps/{id}': 'forbidden',
  'DELETE /oauth/apps/{id}': 'forbidden',
  'POST /oauth/apps/{id}/verify': 'forbidden',
  'POST /oauth/device': 'forbidden',
  'GET /oauth/device/{id}': 'forbidden',
};

const namesAccount = ({ path }: Route) => path.includes('{account_id}') || path.startsWith('/accounts/{id}');

describe('a key of one account', () => {
  it('cannot see or change another account on any route', async () => {
    const generated = routes.filter(namesAccount);
    expect(generated.length).toBeGreaterThan(25);
    for (const route of generated) {
      const { method, path } = route;
      const rest = path.replace(/\{(account_id|id)\}/, '#');
      const answers = await Promise.all(
        [ids().other, newId('account')].map((id) =>
          call(method, fill(rest, other).replace('#', id), bodyOf(route, other)),
        ),
      );
      expect([method, path, ...outcome(answers[0]!)]).toEqual([method, path, ...NOT_FOUND]);
      expect(bodyWithoutRequest(answers[0])).toEqual(bodyWithoutRequest(answers[1]));
      if (method !== 'GET') continue;
      const mine = await call(method, fill(path, { ...own, id: ids().own }), bodyOf(route, own));
      expect([method, path, mine.statusCode]).toEqual([method, path, 200]);
    }
  });

  it('has the expected access to every other route', async () => {
    const rest = routes.filter((route) => !namesAccount(route));
    const undecided = rest.map(({ method, path }) => `${method} ${path}`).filter((name) => !(name in DECISIONS));
    expect(undecided).toEqual([]);
    for (const route of rest) {
      const { method, path } = route;
      const decision = DECISIONS[`${method} ${path}`];
      if (typeof decision === 'function') await decision(route);
      else expect([path, ...outcome(await call(method, fill(path, { id: 'x' })))]).toEqual([path, ...FORBIDDEN]);
    }
  });

  it('pages through the objects of all its accounts', async () => {
    const accounts = [own['account_id'] as string, other['account_id'] as string];
    const both = await createApiKey(api.database.db, { name: 'both', expiresAt: null, accountIds: accounts });
    const get = async (path: string) =>
      (await api.call('GET', path, { headers: { 'x-api-key': both.key } })).json<Data & { cursor: string }>();
    const { mine, theirs } = ids();
    const log = await Promise.all([0, 1, 2].map((offset) => get(`/webhooks/conversations?limit=1&offset=${offset}`)));
    expect(log.map(({ data }) => data.map(({ id }) => id))).toEqual([[theirs.delivery], [mine.delivery], []]);
    const first = await get('/webhooks/events?limit=1');
    const second = await get(`/webhooks/events?limit=1&cursor=${first.cursor}`);
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual([mine.event, theirs.event]);
  });
});

describe('a key that may only read', () => {
  it('is rejected for every change, and for nothing else', async () => {
    const { endpoint, keyId } = await administration();
    for (const route of routes.filter(
      ({ path }) => !/^\/session(\/password)?$|\/stream$|\/auth\/servers$|^\/lookup$/.test(path),
    )) {
      const { method, path } = route;
      const id = path.startsWith('/accounts/')
        ? ids().own
        : path.includes('endpoints')
          ? endpoint
          : ids().mine.delivery;
      const answer = await api.call(method, fill(path, { ...own, id }), {
        ...bodyOf(route, own),
        headers: { 'x-api-key': readKey },
      });
      if (method !== 'GET') expect([method, path, ...outcome(answer)]).toEqual([method, path, ...FORBIDDEN]);
      else if (!/\/(replays|apps|device|uploads)\/\{id\}/.test(path))
        expect([path, answer.statusCode]).toEqual([path, 200]);
    }
    expect(await administration()).toEqual({ endpoint, keyId });
  });

  it('sees no usable secret', async () => {
    const headers = { 'x-api-key': readKey };
    const { endpoint } = await administration();
    for (const path of ['/webhooks/endpoints', `/webhooks/endpoints/${endpoint}`, '/webhooks/conversations']) {
      const answer = await api.call('GET', path, { headers });
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toContain('"https://93.184.215.14/hook"');
      if (path.includes('endpoints')) expect(answer.body).toContain('Authorization');
      expect(answer.body).not.toMatch(/whsec_|canary/);
    }
  });

  const administration = async () => {
    const [endpoints, keys] = await Promise.all(
      ['/webhooks/endpoints', '/api-keys'].map((path) => api.get<Data>(path)),
    );
    return { endpoint: endpoints?.data[0]?.id as string, keyId: keys?.data[0]?.id as string };
  };
});

describe('a key that operates', () => {
  it('changes everything except who may do what', async () => {
    const { key: operator } = await createApiKey(api.database.db, {
      ...{ name: 'operator', expiresAt: null, permissions: 'operate' },
    });
    const headers = { 'x-api-key': operator };
    const [{ id: keyId } = { id: '' }] = (await api.get<Data>('/api-keys')).data;
    const made = await api.call('POST', '/webhooks/endpoints', { body: ENDPOINT, headers });
    expect([made.statusCode, made.body]).toEqual([200, expect.stringContaining('whsec_')]);
    expect(
      (await api.call('DELETE', `/webhooks/endpoints/${made.json<{ id: string }>().id}`, { headers })).statusCode,
    ).toBe(200);
    for (const [method, path, body] of [
      ['POST', '/api-keys', { name: 'more', permissions: 'full' }],
      ['DELETE', `/api-keys/${keyId}`, undefined],
    ] as const) {
      const answer = await api.call(method, path, { headers, ...(body ? { body } : {}) });
      expect([method, path, ...outcome(answer)]).toEqual([method, path, ...FORBIDDEN]);
    }
    expect((await api.get<Data>('/api-keys')).data.map(({ id }) => id)).toContain(keyId);
  });
});

describe('limits of a key', () => {
  it('are set on creation, and shown', async () => {
    const body = { name: 'limited', permissions: 'read', accounts: [ids().own, ids().own] };
    const made = (await api.call('POST', '/api-keys', { body })).json();
    expect(made).toMatchObject({ permissions: 'read', accounts: [ids().own] });
    const { data } = await api.get<{ data: { id: string }[] }>('/api-keys?limit=250');
    expect(data.find(({ id }) => id === made.id)).toMatchObject({ permissions: 'read', accounts: [ids().own] });
    const plain = (await api.call('POST', '/api-keys', { body: { name: 'plain', accounts: null } })).json();
    expect(plain).toMatchObject({ permissions: 'full', accounts: null });
  });

  it.each([
    ['an account that does not exist', { accounts: [newId('account')] }, 'accounts.0'],
    ['what is no account', { accounts: ['x'] }, 'accounts.0'],
    ['no account at all, which is not all of them', { accounts: [] }, 'accounts'],
    ['other permissions', { permissions: 'write' }, 'permissions'],
  ])('may not name %s', async (_, limits, field) => {
    const answer = await api.call('POST', '/api-keys', { body: { name: 'x', ...limits } });
    expect([...outcome(answer), answer.json().detail]).toEqual([
      400,
      'errors/invalid_parameters',
      expect.stringContaining(field),
    ]);
  });
});

it('a route without a reach fails the start', () => {
  const hooks: ((route: object) => void)[] = [];
  requireReach({ addHook: (_: string, hook: (route: object) => void) => hooks.push(hook) } as never);
  const add = (url: string) => hooks[0]?.({ method: 'GET', url });
  expect(() => add('/api/v1/new')).toThrow('reach');
  expect(() => add('/api/v1/:account_id/new')).not.toThrow();
});
