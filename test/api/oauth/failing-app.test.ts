import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { OAuthApp } from '../../../src/contract/oauth.ts';
import { putTokens } from '../../../src/db/coordination/oauth-tokens.ts';
import { markAppFailing, markAppWorking } from '../../../src/db/queries/oauth-apps.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';

const EXPIRED = 'the client secret of the app has expired: create a new one';

let api: ApiUnderTest;

beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const newApp = async () =>
  (
    await api.call('POST', '/oauth/apps', { body: { provider: 'fastmail', name: 'CRM', client_id: 'a client' } })
  ).json<OAuthApp>();

async function accountOf(app: OAuthApp): Promise<string> {
  const accountId = await storeAccount(api.database);
  const tokens = { tokens: Buffer.from('sealed'), expiresAt: null, renewAt: null };
  await api.database.db.transaction((tx) => putTokens(tx, { accountId, appId: app.id, ...tokens }));
  return accountId;
}

/** The app as a request used it. */
const used = ({ id, updated_at }: OAuthApp) => ({ id, updatedAt: new Date(updated_at) });
const appOf = ({ id }: OAuthApp) => api.get<OAuthApp>(`/oauth/apps/${id}`);
const eventsOf = async (ids: string[]) =>
  (await Promise.all(ids.map((id) => storedEvents(api.database, id)))).flat().map(({ type, data }) => [type, data]);

it('has one event when it begins to fail and one when it works again, whatever the number of its accounts', async () => {
  const { db } = api.database;
  const app = await newApp();
  const ids = [await accountOf(app), await accountOf(app), await accountOf(app)];
  const began = await Promise.all(ids.map(() => markAppFailing(db, used(app), EXPIRED)));
  expect(began.filter(Boolean)).toHaveLength(1);
  const shown = { id: app.id, provider: 'fastmail', name: 'CRM' };
  const failing = ['oauth_app.failing', { app: { ...shown, status: 'failing', status_detail: EXPIRED } }];
  expect(await eventsOf(ids)).toEqual([failing]);
  const ended = await Promise.all(ids.map(() => markAppWorking(db, app.id)));
  expect(ended.filter(Boolean)).toHaveLength(1);
  expect(await eventsOf(ids)).toEqual([
    failing,
    ['oauth_app.recovered', { app: { ...shown, status: 'ok', status_detail: '' } }],
  ]);
});

it('leaves its accounts running, which say so', async () => {
  const app = await newApp();
  const [id, other] = [await accountOf(app), await accountOf(await newApp())];
  const read = () => api.get<Account>(`/accounts/${id}`);
  await markAppFailing(api.database.db, used(app), EXPIRED);
  const saying = { status: 'running', status_detail: `the OAuth app ${app.id} is failing: ${EXPIRED}` };
  expect(await read()).toMatchObject(saying);
  const { data } = await api.get<{ data: Account[] }>('/accounts?limit=250');
  expect(data.find((each) => each.id === id)).toMatchObject(saying);
  expect(data.find((each) => each.id === other)).toMatchObject({ status: 'running', status_detail: '' });
  expect((await api.call('PATCH', `/accounts/${id}`, { body: { metadata: {} } })).json()).toMatchObject(saying);
  await markAppWorking(api.database.db, app.id);
  expect(await read()).toMatchObject({ status: 'running', status_detail: '' });
});

it('is failing after a change until the provider accepts one of its accounts; without accounts it is not', async () => {
  const [needed, unused] = [await newApp(), await newApp()];
  await accountOf(needed);
  for (const app of [needed, unused]) {
    await markAppFailing(api.database.db, used(app), EXPIRED);
    expect(await appOf(app)).toMatchObject({ status: 'failing', status_detail: EXPIRED });
    await api.call('PATCH', `/oauth/apps/${app.id}`, { body: { client_secret: 'the next one' } });
  }
  expect(await appOf(needed)).toMatchObject({ status: 'failing', status_detail: EXPIRED });
  expect(await appOf(unused)).toMatchObject({ status: 'ok', status_detail: '', failing_since: null });
});

it('is not failing by the refusal of what it had before a change', async () => {
  const app = await newApp();
  await accountOf(app);
  await api.call('PATCH', `/oauth/apps/${app.id}`, { body: { client_secret: 'the next one' } });
  expect(await markAppFailing(api.database.db, used(app), EXPIRED)).toBe(false);
  expect(await appOf(app)).toMatchObject({ status: 'ok', status_detail: '', failing_since: null });
});
