import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { Email } from '../../../src/contract/email.ts';
import type { EventType } from '../../../src/contract/events.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf, type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { Api } from '../../helpers/product/api.ts';
import { earlierVersion, FIRST_VERSION, hasCommit } from '../../helpers/product/built.ts';
import { addUser, doveadm, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { start, type Started } from '../../helpers/product/start.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { testTemporal } from '../../helpers/servers/temporal.ts';

/** An installation of an earlier version, killed with work of every kind under way, then started with this version. */

/** One installation, whose processes are those of the version in `root`. */
interface Installation {
  begin(root: string): Promise<Api>;
  kill(): Promise<void>;
  /** what its processes have printed */
  logs(): Promise<string>;
  remove(): Promise<void>;
}

const KEY = `upgrade-${randomBytes(24).toString('hex')}`;
const SETTINGS = {
  BOOTSTRAP_API_KEY: KEY,
  OUTBOUND_ALLOW: '127.0.0.0/8',
  ALLOW_INSECURE_MAIL: 'loopback',
  WEBHOOK_RETRY_SCHEDULE: `1s${',5s'.repeat(25)}`,
};

/** As `npm start` runs it, with its own Postgres and Temporal. */
async function embedded(): Promise<Installation> {
  const dir = await mkdtemp(join(tmpdir(), 'upgrade-'));
  // as root, Postgres runs as a user that must be able to enter
  await chmod(dir, 0o711);
  const settings = { ...SETTINGS, PORT: String(await freePort()), TEMPORAL_UI_PORT: String(await freePort()) };
  let running: Started | undefined;
  let printed = '';
  const kill = async () => {
    running?.child.kill('SIGTERM');
    await running?.ended();
    printed += running?.output() ?? '';
    running = undefined;
  };
  return {
    begin: async (root) => {
      running = start(dir, settings, 'dist/start.js', root);
      // an earlier version may build its Temporal server first, once on this machine
      await running.ready(600_000);
      return new Api(`http://127.0.0.1:${settings.PORT}`, KEY);
    },
    kill,
    logs: async () => {
      const files = await readdir(join(dir, 'logs'));
      const texts = await Promise.all(files.map((file) => readFile(join(dir, 'logs', file), 'utf8')));
      return [printed, running?.output(), ...texts].join('\n');
    },
    remove: async () => {
      await kill();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** A server and a worker on a Postgres and a Temporal of the operator. */
async function external(): Promise<Installation> {
  const dir = await mkdtemp(join(tmpdir(), 'upgrade-'));
  const database: TestDatabase = await testDatabase({ max: 1, empty: true });
  const { address, namespace } = testTemporal();
  const port = await freePort();
  const env = {
    ...process.env,
    ...SETTINGS,
    NODE_ENV: 'production',
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    DATA_DIR: dir,
    PORT: String(port),
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  };
  let children: ChildProcess[] = [];
  let printed = '';
  const kill = async () => {
    const exits = children.map((child) => once(child, 'exit'));
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(exits);
    children = [];
  };
  return {
    begin: async (root) => {
      children = ['server', 'worker'].map((name) =>
        spawn(process.execPath, [join(root, 'dist', `${name}.js`)], {
          env,
          cwd: root,
          stdio: ['ignore', 'pipe', 'pipe'],
        }),
      );
      for (const { stdout, stderr } of children) {
        for (const stream of [stdout, stderr]) stream?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
      }
      const api = new Api(`http://127.0.0.1:${port}`, KEY);
      await waitFor(
        () =>
          fetch(`${api.base}/ready`).then(
            ({ ok }) => ok,
            () => false,
          ),
        {
          timeoutMs: 120_000,
          what: () => `the API to be ready:\n${printed}`,
        },
      );
      return api;
    },
    kill,
    logs: () => Promise.resolve(printed),
    remove: async () => {
      await kill();
      await database.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** messages that an initial sync imports */
const OLD = 600;
/** messages that come while nothing runs */
const AWAY = 20;
const HEARD: EventType[] = ['email.new', 'email.delete', 'email.update'];

const hasFirst = await hasCommit(FIRST_VERSION);

// a clone without history cannot build the earlier version
(hasFirst ? describe : describe.skip).each([
  ['embedded', embedded],
  ['external', external],
])('an installation of %s Postgres and Temporal', (_, create) => {
  let installation: Installation;
  let receiver: Receiver;
  /** answers 500 until it is mended */
  let broken: Receiver;
  let api: Api;
  let user: MailUser;
  let ada: MailUser;
  let box: Mailbox;
  let account: Account;
  let importing: Account;
  let removed: Account;
  let draft: Email;
  let before: Email[];
  let reportedBefore: number;
  let isMended = false;
  const orders = Array.from({ length: 6 }, (__, n) => `Order ${n}`);

  const send = (order: string) =>
    api.request(
      'POST',
      `/${account.id}/emails/send`,
      { to: [{ email: ada.user }], subject: order, html: '<p>One, please</p>' },
      { 'Idempotency-Key': order },
    );
  const reported = (types: EventType[] = ['email.new']) =>
    receiver
      .accepted({ account: account.id, types })
      .map((call) => ({ event: call.event.id, subject: emailOf(call).subject }));
  const imported = async () => (await api.get<Account>(`/accounts/${importing.id}`)).initial_sync?.imported ?? 0;

  beforeAll(async () => {
    const old = await earlierVersion(FIRST_VERSION);
    installation = await create();
    [receiver, broken] = [await startReceiver(), await startReceiver()];
    broken.answer = () => (isMended ? 200 : 500);
    api = await installation.begin(old);
    await api.listen(receiver, { types: HEARD });
    [user, ada] = [await addUser(), await addUser()];
    box = await openMailbox(user);
    account = await api.connect(user);
    for (let n = 0; n < 30; n++) await box.append(n % 5 === 0 ? 'Archive' : 'INBOX', { subject: `before ${n}` });
    await waitFor(() => reported().length === 30, { timeoutMs: 60_000 });
    removed = await api.connect(await addUser());
    draft = await api.post<Email>(`/${account.id}/drafts`, {
      subject: 'A draft',
      html: '<p>Later</p>',
      to: [{ email: ada.user }],
    });
    // an endpoint gets what happens after it was made: 20 retries will be pending
    await api.listen(broken, { types: ['email.update'] });
    before = (await api.emails(account.id, { limit: '100' })).data.filter(({ subject }) =>
      subject.startsWith('before'),
    );
    for (const { id } of before.slice(0, 20)) await api.post(`/${account.id}/emails/${id}/read`);
    await waitFor(() => broken.calls.length >= 3, { timeoutMs: 30_000 });
    expect((await send(orders[0] ?? '')).status).toBe(200);

    const full = await addUser();
    const filled = await openMailbox(full);
    const date = new Date(Date.now() - 86_400_000);
    for (let n = 0; n < OLD; n++) await filled.append('INBOX', { subject: `old ${n}` }, { date });
    await filled.close();
    importing = await api.connect(full, { config: { initial_sync_enable: true, initial_sync_days: 30 } });
    await waitFor(async () => (await imported()) > 0, { timeoutMs: 30_000, everyMs: 5 });
    // under way when everything is killed
    const underWay = [
      ...orders.slice(1).map(send),
      ...before.slice(20).map(({ id }) => api.request('POST', `/${account.id}/emails/${id}/read`)),
      api.request('DELETE', `/accounts/${removed.id}`),
    ];
    const ends = Promise.allSettled(underWay);
    await new Promise((resolve) => setTimeout(resolve, 80));
    await installation.kill();
    await ends;
    reportedBefore = reported().length;

    for (let n = 0; n < AWAY; n++) await box.append('INBOX', { subject: `while away ${n}` });
    const gone = before.find(({ subject }) => subject === 'before 1');
    await doveadm(user, 'expunge', '-u', user.user, 'mailbox', 'INBOX', 'header', 'message-id', gone?.message_id ?? '');
    api = await installation.begin(projectRoot());
  }, 1_200_000);

  afterAll(async () => {
    await box?.close();
    await installation?.remove();
    await Promise.all([receiver?.close(), broken?.close()]);
  }, 60_000);

  it('keeps every email under its id, and reports what happened in the meantime once', async () => {
    const awayCount = () =>
      new Set(
        reported()
          .map(({ subject }) => subject)
          .filter((one) => one.startsWith('while')),
      ).size;
    await waitFor(() => awayCount() === AWAY, {
      timeoutMs: 120_000,
      what: () => `${AWAY} emails; came: ${awayCount()}`,
    });
    expect(reported().length).toBeGreaterThan(reportedBefore);
    const events = new Map<string, Set<string>>();
    for (const { event, subject } of reported()) events.set(subject, (events.get(subject) ?? new Set()).add(event));
    expect([...events].filter(([, ids]) => ids.size !== 1)).toEqual([]);
    await waitFor(() => reported(['email.delete']).length === 1, { timeoutMs: 60_000 });
    const after = (await api.emails(account.id, { limit: '250' })).data;
    const ids = new Map(after.map(({ subject, id }) => [subject, id]));
    for (const { subject, id } of before) expect(ids.get(subject)).toBe(subject === 'before 1' ? undefined : id);
  }, 240_000);

  it('imports the rest, and nothing twice', async () => {
    await waitFor(async () => (await imported()) === OLD, { timeoutMs: 120_000, what: 'the import to end' });
    const subjects: string[] = [];
    let cursor: string | null = null;
    do {
      const query: Record<string, string> = { limit: '250', meta_only: 'true', ...(cursor ? { cursor } : {}) };
      const page = await api.emails(importing.id, query);
      subjects.push(...page.data.map(({ subject }) => subject));
      cursor = page.cursor;
    } while (cursor !== null);
    expect(subjects.filter((subject) => subject.startsWith('old ')).sort()).toEqual(
      Array.from({ length: OLD }, (__, n) => `old ${n}`).sort(),
    );
  }, 180_000);

  it('sends each email once, also those that were under way, and the draft', async () => {
    const ids = await Promise.all(
      orders.map(async (order) => {
        const answer = await send(order);
        expect(answer.status).toBe(200);
        return ((await answer.json()) as { message_id: string }).message_id;
      }),
    );
    await api.post(`/${account.id}/drafts/${draft.id}/send`);
    await waitFor(async () => (await doveadm(ada, 'search', '-u', ada.user, 'subject', 'A draft')).trim() !== '', {
      timeoutMs: 30_000,
      what: 'the draft to arrive',
    });
    for (const [index, order] of orders.entries()) {
      const found = await doveadm(ada, 'search', '-u', ada.user, 'subject', order);
      expect(`${order}: ${found.trim().split('\n').filter(Boolean).length}`).toBe(`${order}: 1`);
      const own = await doveadm(ada, 'search', '-u', ada.user, 'header', 'message-id', ids[index] ?? '');
      expect(own.trim()).not.toBe('');
    }
  }, 120_000);

  it('makes the changes and the removal that were under way, or can make them again', async () => {
    for (const { id, subject } of before.slice(20)) {
      if (subject !== 'before 1') await api.post(`/${account.id}/emails/${id}/read`);
    }
    const unread = (await api.emails(account.id, { is_unread: 'true', limit: '250' })).data;
    expect(unread.filter(({ subject }) => subject.startsWith('before'))).toEqual([]);
    await api.request('DELETE', `/accounts/${removed.id}`);
    await waitFor(async () => (await api.request('GET', `/accounts/${removed.id}`)).status === 404, {
      timeoutMs: 60_000,
    });
  }, 120_000);

  it('delivers the pending retries once the endpoint works', async () => {
    isMended = true;
    await waitFor(() => new Set(broken.accepted().map(({ event }) => event.id)).size >= 20, {
      timeoutMs: 120_000,
      what: () => `20 deliveries; came: ${broken.accepted().length}`,
    });
    expect([...receiver.faults, ...broken.faults]).toEqual([]);
  }, 180_000);

  it('replays every workflow that was open', async () => {
    expect((await installation.logs()).match(/.*nondetermin.*/gi) ?? []).toEqual([]);
  });
});
