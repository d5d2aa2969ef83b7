import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { listRuns } from '../../src/api/commands/runs.ts';
import { accountStart } from '../../src/activities/account.ts';
import { ERRORS } from '../../src/contract/errors.ts';
import type { History, Run } from '../../src/contract/history.ts';
import type { WebhookEndpoint } from '../../src/contract/webhook.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { newId } from '../../src/new-id.ts';
import { lazyClient } from '../../src/temporal/connect.ts';
import { accountWorkflowId, WORKFLOWS } from '../../src/workflows/names.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';
import { TEST_KEY } from '../helpers/assert/histories.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** What happened to an email or an account, and the runs of an account. */

let workers: TestWorkers;
let api: ApiUnderTest;
let client: Parameters<typeof listRuns>[0];

beforeAll(async () => {
  workers = await startTestWorkers({
    loadAccount: async () => ({ status: 'disconnected', initialSync: null }),
  });
  client = workers.api;
  api = await apiUnderTest({ commands: { listRuns: (...args) => listRuns(client, ...args) } });
}, 60_000);
afterAll(async () => {
  await api.close();
  await workers.stop();
});

const query = (text: string, values: unknown[]) => api.database.pool.query(text, values);

describe('the history of an email', () => {
  let accountId: string;
  let endpointId: string;
  beforeAll(async () => {
    accountId = await storeAccount(api.database);
    const body = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new', 'email.update', 'email.delete'] };
    const made = await api.call('POST', '/webhooks/endpoints', { body });
    endpointId = made.json<WebhookEndpoint>().id;
  });

  const record = (emailId: string, ...types: ('email.new' | 'email.update' | 'email.delete' | 'tracking.open')[]) =>
    api.database.db.transaction((tx) =>
      recordEvents(
        tx,
        accountId,
        types.map((type, index) => ({
          type,
          objectId: emailId,
          data: {},
          createdAt: new Date(Date.UTC(2026, 0, 1, 0, index)),
        })),
      ),
    );

  it('shows its events and their deliveries with attempts and workflows, oldest first, also when it is deleted', async () => {
    const emailId = newId('email');
    await record(emailId, 'email.new', 'email.update', 'tracking.open', 'email.delete');
    await query(
      `update deliveries set status = 'delivered', workflow_id = 'deliver/x', attempts_count = 1
       where object_id = $1 and event_type = 'email.new'`,
      [emailId],
    );
    await query(
      `delete from pending_deliveries using deliveries d where d.id = delivery_id and d.workflow_id = 'deliver/x'`,
      [],
    );
    await query(
      `insert into delivery_attempts (delivery_id, number, at, http_status, duration_ms)
       select id, 1, '2026-01-01T00:00:01.500Z', 204, 12 from deliveries where workflow_id = 'deliver/x'`,
      [],
    );
    const history = await api.get<History>(`/${accountId}/emails/${emailId}/history`);
    expect(history).toMatchObject({ object: 'History', has_more: false, cursor: null });
    expect(history.data.map(({ kind, event_type, status }) => [kind, event_type, status])).toEqual([
      ['ingested', 'email.new', undefined],
      ['delivery', 'email.new', 'delivered'],
      ['changed', 'email.update', undefined],
      ['delivery', 'email.update', 'pending'],
      ['event', 'tracking.open', undefined],
      ['changed', 'email.delete', undefined],
      ['delivery', 'email.delete', 'pending'],
    ]);
    expect(history.data[1]).toEqual({
      at: '2026-01-01T00:00:00.000Z',
      kind: 'delivery',
      event_id: history.data[0]?.event_id,
      event_type: 'email.new',
      delivery_id: expect.stringMatching(/^whc_/),
      endpoint_id: endpointId,
      status: 'delivered',
      workflow_id: 'deliver/x',
      next_attempt_at: null,
      waiting_for: null,
      attempts: [{ number: 1, at: '2026-01-01T00:00:01.500Z', http_status: 204, error: null, duration_ms: 12 }],
    });
  });

  it('comes in pages', async () => {
    const emailId = newId('email');
    await record(emailId, 'email.new', 'email.update', 'email.update');
    const path = `/${accountId}/emails/${emailId}/history?limit=2`;
    const first = await api.get<History>(path);
    expect(first.has_more).toBe(true);
    const second = await api.get<History>(`${path}&cursor=${first.cursor}`);
    expect(second).toMatchObject({ has_more: false, cursor: null });
    const events = [...first.data, ...second.data].filter(({ kind }) => kind !== 'delivery');
    expect(events.map(({ kind }) => kind)).toEqual(['ingested', 'changed', 'changed']);
    expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(3);
  });

  it('is the same from its end with order=desc, also in pages', async () => {
    const { id } = await storeEmail(api.database, accountId);
    await record(id, 'email.update', 'tracking.open', 'email.update', 'email.delete');
    const path = `/${accountId}/emails/${id}/history`;
    const all = await api.get<History>(path);
    expect(all.data.map(({ kind }) => kind)).toContain('ingested');
    expect(await api.get<History>(`${path}?order=desc`)).toEqual({ ...all, data: all.data.toReversed() });
    const paged: History['data'] = [];
    let page: Pick<History, 'cursor'> = { cursor: null };
    do {
      const { cursor } = page;
      const next = await api.get<History>(`${path}?order=desc&limit=3${cursor === null ? '' : `&cursor=${cursor}`}`);
      expect(next.has_more).toBe(next.cursor !== null);
      paged.push(...next.data);
      page = next;
    } while (page.cursor !== null);
    const events = ({ event_id: event }: History['data'][number]) => event !== undefined;
    expect(paged.filter(events)).toEqual(all.data.toReversed().filter(events));
    expect(paged.filter((entry) => !events(entry))).toEqual([expect.objectContaining({ kind: 'ingested' })]);
    const { cursor } = await api.get<History>(`${path}?limit=1`);
    expect((await api.call('GET', `${path}?order=desc&cursor=${cursor}`)).statusCode).toBe(400);
  });

  it('has one ingest in pages of any size, also where an earlier event is known', async () => {
    const { id } = await storeEmail(api.database, accountId);
    await record(id, 'tracking.open', 'email.new', 'email.update');
    for (const order of ['asc', 'desc']) {
      const kinds: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const next: History = await api.get(`/${accountId}/emails/${id}/history?order=${order}&limit=1${cursor}`);
        kinds.push(...next.data.map(({ kind }) => kind));
        cursor = next.cursor && `&cursor=${next.cursor}`;
      }
      expect([order, kinds.filter((kind) => kind === 'ingested')]).toEqual([order, ['ingested']]);
    }
  });

  it('begins with the ingest where no event reports it', async () => {
    const { id } = await storeEmail(api.database, accountId);
    const { data } = await api.get<History>(`/${accountId}/emails/${id}/history`);
    expect(data).toEqual([{ at: expect.any(String), kind: 'ingested' }]);
  });

  it('is not found for an unknown email, or one of another account', async () => {
    const { id } = await storeEmail(api.database, accountId);
    const other = await storeAccount(api.database);
    for (const path of [`/${accountId}/emails/${newId('email')}/history`, `/${other}/emails/${id}/history`]) {
      expect((await api.call('GET', path)).statusCode).toBe(404);
    }
  });
});

describe('an account', () => {
  it('has its own history', async () => {
    const accountId = await storeAccount(api.database);
    await api.database.db.transaction((tx) =>
      recordEvents(tx, accountId, [
        { type: 'account.status.errored', objectId: accountId, data: {}, createdAt: new Date() },
      ]),
    );
    const { data } = await api.get<History>(`/accounts/${accountId}/history`);
    expect(data).toMatchObject([{ kind: 'changed', event_type: 'account.status.errored' }]);
    expect((await api.call('GET', `/accounts/${newId('account')}/history`)).statusCode).toBe(404);
  });

  it('shows its last events first with order=desc', async () => {
    const accountId = await storeAccount(api.database);
    const types = Array.from({ length: 52 }, (_, n) => `account.status.${n % 2 ? 'running' : 'errored'}` as const);
    await api.database.db.transaction((tx) =>
      recordEvents(
        tx,
        accountId,
        types.map((type, n) => ({ type, objectId: accountId, data: {}, createdAt: new Date(Date.UTC(2026, 0, 1, n)) })),
      ),
    );
    const { data } = await api.get<History>(`/accounts/${accountId}/history?order=desc&limit=2`);
    expect(data.map(({ at }) => at)).toEqual(['2026-01-03T03:00:00.000Z', '2026-01-03T02:00:00.000Z']);
  });

  it('lists its executions, running ones with their state', async () => {
    const accountId = await storeAccount(api.database);
    await workers.api.workflow.start(WORKFLOWS.account, accountStart(accountId, 5_000));
    for (const n of [1, 2]) {
      await workers.api.workflow
        .execute(WORKFLOWS.removeDraft, {
          ...accountStart(accountId, 0),
          args: [{ accountId, draftId: newId('draft') }],
          workflowId: `draft/${n}`,
          workflowRunTimeout: '1s',
        })
        .catch(() => {});
    }
    const list = async (more = '') =>
      api.get<{ data: Run[]; cursor: string | null }>(`/accounts/${accountId}/runs${more}`);
    await waitFor(
      async () => {
        const { data } = await list();
        return data.length === 3 && data.filter(({ closed_at }) => closed_at !== null).length === 2;
      },
      { timeoutMs: 30_000, what: 'the runs to be listed' },
    );
    const { data } = await list();
    const live = data.filter(({ status }) => status === 'running');
    expect(live).toEqual([
      {
        object: 'Run',
        workflow_id: accountWorkflowId(accountId),
        run_id: expect.any(String),
        type: 'account',
        status: 'running',
        started_at: expect.any(String),
        closed_at: null,
        state: { state: 'disconnected', since: expect.any(String), last_error: null, next_try: null, counts: {} },
      },
    ]);
    const paged: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await list(`?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`);
      paged.push(...page.data.map(({ workflow_id }) => workflow_id));
      cursor = page.cursor;
    } while (cursor !== null);
    expect(paged.sort()).toEqual(data.map(({ workflow_id }) => workflow_id).sort());
    await workers.api.workflow.getHandle(accountWorkflowId(accountId)).terminate();
  });

  it('returns 503 for executions while Temporal is unavailable, unlike other routes', async () => {
    const accountId = await storeAccount(api.database);
    // frozen: connections are accepted, and nothing comes back
    const frozen = createServer();
    const port = await listenOnFreePort(frozen);
    const away = lazyClient({
      temporal: { address: `127.0.0.1:${port}`, namespace: 'default' },
      encryptionKey: TEST_KEY,
    });
    client = away.client;
    try {
      const answer = await api.call('GET', `/accounts/${accountId}/runs`);
      expect([answer.statusCode, answer.json()]).toEqual([
        503,
        {
          ...ERRORS.service_unavailable,
          type: 'errors/service_unavailable',
          detail: 'Temporal cannot be reached now',
          request_id: answer.headers['x-request-id'],
        },
      ]);
      expect((await api.call('GET', `/accounts/${accountId}`)).statusCode).toBe(200);
    } finally {
      client = workers.api;
      await away.close();
      frozen.close();
    }
  });
});
