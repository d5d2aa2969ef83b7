import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf, type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { Api } from '../../helpers/product/api.ts';
import { earlierVersion, oldestBeside } from '../../helpers/product/built.ts';
import { addUser, doveadm, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { testTemporal } from '../../helpers/servers/temporal.ts';

/** Processes of the oldest version that works beside this one are replaced by those of this version, and back. */

type Version = 'old' | 'new';
/** Which API processes and workers run; each phase starts what it lacks, then stops what it has no longer. */
const PHASES: { servers: Version[]; workers: Version[] }[] = [
  { servers: ['old'], workers: ['old'] },
  { servers: ['old', 'new'], workers: ['old'] },
  { servers: ['old', 'new'], workers: ['old', 'new'] },
  { servers: ['old', 'new'], workers: ['new'] },
  { servers: ['new'], workers: ['new'] },
  { servers: ['new'], workers: ['new', 'old'] },
  { servers: ['new', 'old'], workers: ['old'] },
  { servers: ['old'], workers: ['old'] },
];
const MAILS = 5;
const KEY = `rolling-${randomBytes(24).toString('hex')}`;

interface Running {
  child: ChildProcess;
  api: Api;
}

const earlier = await oldestBeside();

(earlier === undefined ? describe.skip : describe)('processes of two versions', () => {
  let dir: string;
  let database: TestDatabase;
  let env: NodeJS.ProcessEnv;
  let receiver: Receiver;
  /** refuses every call at first */
  let failing: Receiver;
  let user: MailUser;
  let ada: MailUser;
  let box: Mailbox;
  let account: Account;
  let isMended = false;
  const roots: Partial<Record<Version, string>> = { new: projectRoot() };
  const running = new Map<string, Running>();
  const sent: string[] = [];
  const appended: string[] = [];
  let printed = '';

  async function begin(name: 'server' | 'worker', version: Version): Promise<Running> {
    const port = await freePort();
    const child = spawn(process.execPath, [join(roots[version] ?? '', 'dist', `${name}.js`)], {
      env: { ...env, PORT: String(port) },
      cwd: roots[version],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    }
    const api = new Api(`http://127.0.0.1:${port}`, KEY);
    let isReady = false;
    child.once('message', () => (isReady = true));
    const answers = () =>
      fetch(`${api.base}/health`).then(
        ({ ok }) => ok,
        () => false,
      );
    await waitFor(() => (name === 'worker' ? isReady : answers()), {
      timeoutMs: 60_000,
      what: () => `the ${version} ${name}:\n${printed.slice(-2000)}`,
    });
    return { child, api };
  }

  async function stop({ child }: Running): Promise<void> {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
    child.kill('SIGTERM');
    await gone;
  }

  /** Brings a phase about; returns its API processes. */
  async function enter({ servers, workers }: (typeof PHASES)[number]): Promise<[Version, Api][]> {
    const wanted = [
      ...workers.map((version) => ['worker', version] as const),
      ...servers.map((version) => ['server', version] as const),
    ];
    for (const [name, version] of wanted) {
      const id = `${name} ${version}`;
      if (!running.has(id)) running.set(id, await begin(name, version));
    }
    const ids = new Set(wanted.map((one) => one.join(' ')));
    for (const [id, process] of running) {
      if (ids.has(id)) continue;
      running.delete(id);
      await stop(process);
    }
    return servers.flatMap((version) => {
      const api = running.get(`server ${version}`)?.api;
      return api ? [[version, api] as [Version, Api]] : [];
    });
  }

  const reported = () => receiver.accepted({ types: ['email.new'] }).map((call) => emailOf(call).subject);

  /** Calls of several kinds to one API process, and mail from outside. */
  async function work(api: Api, name: string): Promise<void> {
    for (let n = 0; n < MAILS; n++) {
      appended.push(`${name} ${n}`);
      await box.append('INBOX', { subject: `${name} ${n}` });
    }
    const subject = `sent in ${name}`;
    await api.post(`/${account.id}/emails/send`, { to: [{ email: ada.user }], subject, plain_text: 'One, please' });
    sent.push(subject);
    await api.post(`/${account.id}/drafts`, { subject: `draft in ${name}`, to: [{ email: ada.user }] });
    await api.post(`/${account.id}/folders`, { name: `folder of ${name}` });
    await waitFor(() => appended.every((one) => reported().includes(one)), {
      timeoutMs: 60_000,
      what: () => `new mail; came: ${reported().length} of ${appended.length}`,
    });
    const { data } = await api.emails(account.id, { is_unread: 'true', limit: '100' });
    for (const { id } of data.filter((email) => email.subject.startsWith(name)))
      await api.post(`/${account.id}/emails/${id}/read`);
  }

  beforeAll(async () => {
    roots.old = await earlierVersion(earlier ?? '');
    dir = await mkdtemp(join(tmpdir(), 'rolling-'));
    database = await testDatabase({ max: 1, empty: true });
    const { address, namespace } = testTemporal();
    env = {
      ...process.env,
      NODE_ENV: 'production',
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      DATA_DIR: dir,
      WORKER_METRICS_PORT: '0',
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      BOOTSTRAP_API_KEY: KEY,
      OUTBOUND_ALLOW: '127.0.0.0/8',
      ALLOW_INSECURE_MAIL: 'loopback',
      WEBHOOK_RETRY_SCHEDULE: `1s${',5s'.repeat(60)}`,
    };
    [receiver, failing] = [await startReceiver(), await startReceiver()];
    failing.answer = () => (isMended ? 200 : 500);
    [user, ada] = [await addUser(), await addUser()];
    box = await openMailbox(user);
  }, 600_000);

  afterAll(async () => {
    await box?.close();
    await Promise.all([...running.values()].map(stop));
    await Promise.all([receiver?.close(), failing?.close()]);
    await database?.drop();
    await rm(dir, { recursive: true, force: true });
  }, 60_000);

  it.each(PHASES.map((phase, index) => [phase.servers.join(' and '), phase.workers.join(' and '), index] as const))(
    'API: %s, workers: %s',
    async (_servers, _workers, index) => {
      const apis = await enter(PHASES[index] ?? { servers: [], workers: [] });
      const [, first] = apis[0] ?? [];
      if (index === 0 && first) {
        account = await first.connect(user);
        await first.listen(receiver);
        await first.listen(failing, { types: ['email.folder.create'] });
      }
      for (const [version, api] of apis) await work(api, `${index} ${version}`);
    },
    180_000,
  );

  it('every mail was reported once, every email arrived once, every delivery was made once', async () => {
    isMended = true;
    const folders = sent.map((subject) => subject.replace('sent in', 'folder of'));
    const created = () => failing.accepted().map(({ event }) => (event.data['folder'] as { name: string }).name);
    await waitFor(() => folders.every((name) => created().includes(name)), {
      timeoutMs: 120_000,
      what: () => `the retries; came: ${created().join(', ')}`,
    });
    expect(created().sort()).toEqual(folders.sort());
    expect(
      reported()
        .filter((subject) => appended.includes(subject))
        .sort(),
    ).toEqual([...appended].sort());
    for (const subject of sent) {
      const found = await doveadm(ada, 'search', '-u', ada.user, 'subject', subject);
      expect([subject, found.trim().split('\n').filter(Boolean).length]).toEqual([subject, 1]);
    }
    expect([...receiver.faults, ...failing.faults]).toEqual([]);
  }, 150_000);

  it('no workflow took another path', () => {
    expect(printed.match(/.*nondetermin.*/gi) ?? []).toEqual([]);
  });
});
