import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { Account } from '../../../src/contract/account.ts';
import { intentFor } from '../../helpers/product/api.ts';
import { FakeSmtp } from '../../helpers/fakes/fake-smtp.ts';
import { openMailbox } from '../../helpers/product/mailbox.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { ownServers, type OwnServers } from '../../helpers/servers/own-servers.ts';
import { type Product, startProduct } from '../../helpers/product/product.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Responses while Postgres, Temporal, the workers or the storage are unavailable, and afterwards. */

let servers: OwnServers;
let product: Product;
let smtp: FakeSmtp;
let user: MailUser;
let account: Account;
let emailId: string;
let inboxId: string;
let files: string;

const MAX_MS = 5_000;
const MAIL = { to: [{ email: 'bea@elsewhere.test' }], plain_text: 'hello' };

beforeAll(async () => {
  servers = await ownServers({ max_connections: '60', fsync: 'off' });
  smtp = await new FakeSmtp().listen();
  user = await addUser();
  files = await mkdtemp(join(tmpdir(), 'outage-'));
  product = await startProduct({
    DATABASE_URL: servers.databaseUrl,
    TEMPORAL_ADDRESS: servers.temporalAddress,
    TEMPORAL_NAMESPACE: 'default',
    STORAGE_URL: `file:${join(files, 'storage')}`,
  });
  const mailbox = await openMailbox(user);
  account = await product.api.connect({ ...user, submissionPort: smtp.port });
  await mailbox.append('INBOX', { subject: 'one' });
  await waitFor(async () => {
    emailId = (await product.api.emails(account.id)).data[0]?.id ?? '';
    return emailId !== '';
  });
  await mailbox.close();
  inboxId = (await product.api.folder(account.id, 'INBOX')).id;
}, 240_000);

afterAll(async () => {
  await product?.stop();
  await smtp?.close();
  await servers?.stop();
  await rm(files, { recursive: true, force: true });
});

/** Changes are made again. */
afterEach(async () => {
  const began = Date.now();
  const read = () => product.api.request('POST', `/${account.id}/emails/${emailId}/read`);
  await waitFor(async () => (await read()).status === 200, { timeoutMs: 60_000 });
  measured.push(`${expect.getState().currentTestName} | changes again after ${Date.now() - began} ms`);
}, 90_000);

/** One for each call that changes a draft: they would wait for each other. */
let draftIds: string[] = [];
beforeEach(async () => {
  const save = () => product.api.post<{ draft_id: string }>(`/${account.id}/drafts`, { ...MAIL, subject: 'draft' });
  draftIds = (await Promise.all([save(), save(), save()])).map((draft) => draft.draft_id);
}, 60_000);

interface Answer {
  what: string;
  status: number;
  type: string;
  detail: string;
  retryAfter: string | null;
  ms: number;
}

const measured: string[] = [];
afterAll(() => {
  process.stderr.write(`${measured.join('\n')}\n`);
});

async function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const began = Date.now();
  const response = await product.api.request(method, path, body, headers);
  const text = await response.text();
  const { type = '', detail = '' } = (() => {
    try {
      return JSON.parse(text) as Partial<Answer>;
    } catch {
      return {};
    }
  })();
  const ms = Date.now() - began;
  const what = `${method} ${path.replace(/(acc|email|fld|drf)_\w+/g, '$1')}`;
  const answer: Answer = {
    what,
    status: response.status,
    type,
    detail,
    retryAfter: response.headers.get('retry-after'),
    ms,
  };
  measured.push(`${expect.getState().currentTestName} | ${what} | ${answer.status} | ${ms} ms | ${detail}`);
  return answer;
}

const of = (path: string) => `/${account.id}${path}`;
const READS = () =>
  [
    ['GET', '/accounts'],
    ['GET', `/accounts/${account.id}`],
    ['GET', of('/emails')],
    ['GET', of(`/emails/${emailId}`)],
    ['GET', of('/folders')],
    ['GET', of('/drafts')],
    ['GET', of('/contacts')],
    ['GET', '/webhooks/endpoints'],
    ['GET', '/api-keys'],
  ] as const;
const WRITES = () =>
  [
    ['POST', of(`/emails/${emailId}/read`)],
    ['POST', of(`/emails/${emailId}/modify`), { folders_ids: [inboxId] }],
    ['DELETE', of(`/emails/${emailId}`)],
    ['POST', of('/folders'), { name: `Never ${Date.now()}` }],
    ['POST', of('/emails/send'), { ...MAIL, subject: 'never' }],
    ['POST', of('/drafts'), { ...MAIL, subject: 'never' }],
    ['PATCH', of(`/drafts/${draftIds[0] ?? ''}`), { ...MAIL, subject: 'never' }],
    ['DELETE', of(`/drafts/${draftIds[1] ?? ''}`)],
    ['POST', of(`/drafts/${draftIds[2] ?? ''}/send`)],
    ['POST', '/auth/intent', intentFor(user)],
  ] as const;
const all = (calls: readonly (readonly [string, string, unknown?])[]) =>
  Promise.all(calls.map(([method, path, body]) => ask(method, path, body, { 'Idempotency-Key': `${Math.random()}` })));

function expectAway(answers: Answer[], detail: RegExp): void {
  for (const answer of answers) {
    expect(answer).toMatchObject({
      status: 503,
      type: 'errors/service_unavailable',
      detail: expect.stringMatching(detail),
      retryAfter: '5',
    });
    expect([answer.what, answer.ms < MAX_MS]).toEqual([answer.what, true]);
  }
}

const ready = async () => (await fetch(`${product.api.base}/ready`)).json();
const untilReady = async () => {
  const began = Date.now();
  await waitFor(async () => (await fetch(`${product.api.base}/ready`)).ok, { timeoutMs: 60_000, everyMs: 100 });
  measured.push(`${expect.getState().currentTestName} | ready again after ${Date.now() - began} ms`);
};

describe('the database', () => {
  it('frozen is 503, and recovers when it continues', async () => {
    servers.postgres.freeze();
    try {
      expectAway(await all([...READS(), ...WRITES()]), /^the database cannot be reached now/);
      // without connections that were open before
      expectAway(await all([...READS(), ...WRITES()]), /^the database cannot be reached now/);
      expect(await ready()).toMatchObject({ postgres: 'unreachable', temporal: 'ok' });
    } finally {
      servers.postgres.thaw();
    }
    await untilReady();
    for (const { status } of await all(READS())) expect(status).toBe(200);
  }, 90_000);

  it('killed and refused is 503, and recovers when it is back', async () => {
    await servers.postgres.kill();
    expectAway(await all([...READS(), ...WRITES()]), /^the database cannot be reached now/);
    await servers.postgres.start();
    await untilReady();
    for (const { status } of await all(READS())) expect(status).toBe(200);
  }, 90_000);

  it('restarted during calls causes only 503 responses', async () => {
    const answers: Answer[] = [];
    let over = false;
    const calls = (async () => {
      while (!over) answers.push(...(await all(READS())));
    })();
    await sleep(300);
    await servers.postgres.kill();
    await servers.postgres.start();
    await sleep(500);
    over = true;
    await calls;
    expect([...new Set(answers.map(({ status }) => status))].filter((status) => ![200, 503].includes(status))).toEqual(
      [],
    );
    expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(MAX_MS);
  }, 90_000);

  it('out of connections is 503', async () => {
    const admin = new pg.Client({ connectionString: servers.databaseUrl });
    await admin.connect();
    const taken: pg.Client[] = [];
    try {
      for (;;) {
        const client = new pg.Client({ connectionString: servers.databaseUrl });
        client.on('error', () => {});
        taken.push(client);
        await client.connect();
      }
    } catch {
      // all are taken
    }
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()
       and datname = 'mailbox' and query <> ''`,
    );
    const answers = await all(READS());
    for (const { status } of answers) expect([200, 503]).toContain(status);
    expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(MAX_MS);
    await Promise.all(taken.map((client) => client.end().catch(() => {})));
    await admin.end();
    await untilReady();
  }, 90_000);
});

describe('Temporal', () => {
  it.each(['frozen', 'killed'] as const)(
    '%s is 503 for writes, while reads still work',
    async (how) => {
      if (how === 'frozen') servers.temporal.freeze();
      else await servers.temporal.kill();
      const [reads, writes, state] = await Promise.all([all(READS()), all(WRITES()), ready()]);
      if (how === 'frozen') servers.temporal.thaw();
      else await servers.temporal.start();
      expectAway(
        writes,
        /^Temporal cannot be reached now: (the change may still be made|the email was not sent|the draft may|nothing was saved)/,
      );
      for (const { status } of reads) expect(status).toBe(200);
      expect(state).toMatchObject({ postgres: 'ok', temporal: 'unreachable' });
      await untilReady();
    },
    120_000,
  );
});

describe('without a worker', () => {
  it('changes, drafts, sends and connects are 503, and a later worker performs none of them', async () => {
    await product.killWorker('SIGTERM');
    const before = smtp.messages.length;
    const { folders } = await product.api.email(account.id, emailId);
    const name = `Never ${Date.now()}`;
    const answers = await all([
      ['POST', of(`/emails/${emailId}/unread`)],
      ['DELETE', of(`/emails/${emailId}`)],
      ['POST', of('/folders'), { name }],
      ['POST', of('/emails/send'), { ...MAIL, subject: 'never' }],
      ['POST', of('/drafts'), { ...MAIL, subject: 'never' }],
      ['POST', '/auth/intent', intentFor(user, { name: 'never' })],
    ]);
    product.startWorker();
    expectAway(
      answers,
      /^no worker is available: (nothing was changed|the email was not sent|the draft was not saved|nothing was saved)$/,
    );
    await waitFor(async () => (await product.api.request('POST', of(`/emails/${emailId}/read`))).status === 200, {
      timeoutMs: 60_000,
    });
    await sleep(2_000);
    expect((await product.api.folders(account.id)).map((folder) => folder.name)).not.toContain(name);
    expect(smtp.messages).toHaveLength(before);
    expect((await product.api.email(account.id, emailId)).folders).toEqual(folders);
    const drafts = await product.api.get<{ data: { subject: string }[] }>(of('/drafts'));
    expect(drafts.data.map(({ subject }) => subject)).not.toContain('never');
  }, 120_000);
});

describe('the storage', () => {
  it('full is 503 for sends and drafts, and nothing is sent', async () => {
    const storage = join(files, 'storage');
    const away = join(files, 'away');
    await rename(storage, away);
    await mkdir(storage);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'none', storage]);
    await writeFile(join(storage, 'full'), Buffer.alloc(4096));
    try {
      expectAway(
        await all([
          ['POST', of('/emails/send'), { ...MAIL, subject: 'never' }],
          ['POST', of('/drafts'), { ...MAIL, subject: 'never' }],
          ['PATCH', of(`/drafts/${draftIds[0] ?? ''}`), { ...MAIL, subject: 'never' }],
        ]),
        /^the storage is full: (the email was not sent|the draft was not saved)$/,
      );
    } finally {
      execFileSync('umount', [storage]);
      await rm(storage, { recursive: true });
      await rename(away, storage);
      await chmod(storage, 0o700);
    }
    expect(smtp.messages.filter(({ source }) => source.includes('never'))).toEqual([]);
    const { status } = await ask('GET', of(`/emails/${emailId}/source`));
    expect(status).toBe(200);
  }, 60_000);
});
