import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { Email } from '../../../src/contract/email.ts';
import type { Import } from '../../../src/contract/runs/import.ts';
import { commandOf } from '../../../src/runtime/process-handle.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf, type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { Api } from '../../helpers/product/api.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { openMailbox } from '../../helpers/product/mailbox.ts';
import { rawImap } from '../../helpers/servers/raw-imap.ts';
import { type Started, start } from '../../helpers/product/start.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** An import of a whole mailbox while worker, API and Postgres are killed in turn, and mail comes to the same mailbox. */

const OLD = isLong() ? 200_000 : 3_000;
const KILLS = isLong() ? 20 : 3;
const PARTS = ['dist/worker.js', 'dist/server.js', 'postgres -D'];
/** Messages that are fetched, and not yet saved, when a worker is killed: two batches of small ones, at most. */
const UNDER_WAY = 1_000;

let dataDir: string;
let run: Started;
let api: Api;
let receiver: Receiver;
let user: MailUser;
let account: Account;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'import-kills-'));
  // as root, Postgres runs as a user who has to come through
  await chmod(dataDir, 0o711);
  const key = `test-${randomBytes(24).toString('hex')}`;
  const [port, uiPort] = [await freePort(), await freePort()];
  run = start(
    dataDir,
    {
      ...{ PORT: String(port), TEMPORAL_UI_PORT: String(uiPort), BOOTSTRAP_API_KEY: key },
      SYNC_HEARTBEAT_TIMEOUT: '4s',
    },
    'scripts/start.mjs',
  );
  user = await addUser();
  await Promise.all([run.ready(200_000), fill()]);
  api = new Api(`http://127.0.0.1:${port}`, key);
  receiver = await startReceiver();
  await api.listen(receiver);
  account = await api.connect(user);
}, 600_000);

afterAll(async () => {
  run?.child.kill('SIGTERM');
  await run?.ended();
  await receiver?.close();
  if (dataDir) await rm(dataDir, { recursive: true, force: true });
});

async function fill(): Promise<void> {
  const mails = function* () {
    for (let n = 0; n < OLD; n++) {
      yield mailText({ messageId: `<old.${n}@import.test>`, subject: `old ${n}`, text: `number ${n} `.repeat(100) });
    }
  };
  const imap = await rawImap(user);
  await imap.fill('INBOX', mails(), new Date(Date.now() - 90 * 86_400_000));
  imap.close();
}

/** The API and its database may be away. */
async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  let last: unknown;
  const answer = async () => ({ value: await call() });
  const found = await waitFor(() => answer().catch((error: unknown) => void (last = error)), {
    ...{ timeoutMs: 120_000, everyMs: 200 },
    what: () => `an answer: ${String(last)}`,
  });
  return found.value;
}

const state = ({ id }: Import) => untilAnswered(() => api.get<Import>(`/accounts/${account.id}/imports/${id}`));

/** Kills a part once each time that another share of the mail is imported. */
async function killInTurn(made: Import): Promise<number[]> {
  const times: number[] = [];
  for (let n = 1; n <= KILLS; n++) {
    const share = Math.floor((OLD * n) / (KILLS + 1));
    await waitFor(async () => (await state(made)).imported >= share, {
      ...{ timeoutMs: 600_000, everyMs: 50 },
      what: `${share} to be imported`,
    });
    const part = PARTS[n % PARTS.length] as string;
    const victim = await waitFor(() => run.handles().find(({ pid }) => commandOf(pid).includes(part)), {
      ...{ timeoutMs: 60_000, what: part },
    });
    process.kill(victim.pid, 'SIGKILL');
    times.push(Date.now());
  }
  return times;
}

/** Appends a mail every second until `isOver`; when each came, ms, by its subject. */
async function arrivals(isOver: () => boolean): Promise<Map<string, number>> {
  const came = new Map<string, number>();
  const box = await openMailbox(user);
  for (let n = 0; !isOver(); n++) {
    await box.append('INBOX', { subject: `new ${n}` });
    came.set(`new ${n}`, Date.now());
    await sleep(1_000);
  }
  await box.close();
  return came;
}

async function listed(): Promise<Email[]> {
  const found: Email[] = [];
  for (let cursor: string | null = null; ; ) {
    const query = new URLSearchParams({ limit: '250', meta_only: 'true', ...(cursor === null ? {} : { cursor }) });
    const page: { data: Email[]; cursor: string | null } = await api.get(`/${account.id}/emails?${query}`);
    found.push(...page.data);
    if ((cursor = page.cursor) === null) return found;
  }
}

/** How often the server sent the whole text of a message of this user; it writes that down at the end of each session. */
async function timesFetched(): Promise<number> {
  const log = await readFile(join(dirname(user.dovecot.usersDir), 'dovecot.log'), 'utf8');
  const lines = log.split('\n').filter((line) => line.includes(`imap(${user.user})`));
  return lines.reduce((sum, line) => sum + Number(/ body_count=(\d+)/.exec(line)?.[1] ?? 0), 0);
}

test(
  'each mail is stored once, fetched once but for what was under way at a kill, and none that comes beside it is lost',
  async () => {
    const made = await api.post<Import>(`/accounts/${account.id}/imports`, {});
    const began = Date.now();
    let isOver = false;
    const arriving = arrivals(() => isOver);
    const kills = await killInTurn(made);
    await waitFor(async () => (await state(made)).status === 'completed', {
      ...{ timeoutMs: 1_200_000, everyMs: 250 },
      what: 'the import',
    });
    const seconds = (Date.now() - began) / 1000;
    isOver = true;
    const came = await arriving;
    const news = () => receiver.accepted({ account: account.id, types: ['email.new'] });
    const reported = () => new Set(news().map((call) => emailOf(call).subject));
    await waitFor(() => [...came.keys()].every((subject) => reported().has(subject)), {
      ...{ timeoutMs: 120_000, everyMs: 250 },
      what: () => `the mail that came: ${[...came.keys()].filter((subject) => !reported().has(subject)).join()}`,
    });

    expect(kills).toHaveLength(KILLS);
    const emails = await listed();
    expect(new Set(emails.map(({ id }) => id)).size).toBe(emails.length);
    const old = Array.from({ length: OLD }, (_, n) => `old ${n}`);
    expect(emails.map(({ subject }) => subject).sort()).toEqual([...old, ...came.keys()].sort());
    expect(new Set(news().map(({ event }) => event.id)).size).toBe(came.size);
    expect([...reported()].sort()).toEqual([...came.keys()].sort());
    const ended = receiver.accepted({ account: account.id, types: ['import.completed', 'import.failed'] });
    expect(new Set(ended.map(({ event }) => `${event.type} ${event.id}`)).size).toBe(1);

    run.child.kill('SIGTERM');
    await run.ended();
    const workerKills = kills.filter((_, index) => PARTS[(index + 1) % PARTS.length] !== PARTS[1]).length;
    const fetched = await waitFor(timesFetched, { timeoutMs: 30_000 });
    expect(fetched).toBeLessThanOrEqual(OLD + came.size + workerKills * UNDER_WAY);
    const calm = news().filter(({ event }) => {
      const at = Date.parse(event.created_at);
      return !kills.some((kill) => at > kill - 2_000 && at < kill + 20_000);
    });
    const delays = calm.map((call) => call.at - (came.get(emailOf(call).subject) ?? 0)).sort((a, b) => a - b);
    console.log(
      `${OLD} mails in ${seconds.toFixed(0)} s with ${KILLS} kills; ${fetched - OLD - came.size} fetched again; mail ` +
        `beside it, not within 20 s of a kill: p50 ${delays[delays.length >> 1]} ms, most ${delays.at(-1)} ms of ${delays.length}`,
    );
  },
  isLong() ? 2_400_000 : 480_000,
);
