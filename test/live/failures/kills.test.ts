import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { openDatabase } from '../../../src/db/open.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { newId } from '../../../src/new-id.ts';
import { commandOf } from '../../../src/runtime/process-handle.ts';
import { Random } from '../../chaos/random.ts';
import { Api } from '../../helpers/product/api.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { openMailbox } from '../../helpers/product/mailbox.ts';
import { type Call, emailOf, type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { READY, type Started, start } from '../../helpers/product/start.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/**
 * `npm start` with every process killed at random, and with its Temporal store deleted, while events are delivered and mail
 * comes: every event is reported under one id, in the order of its object, and each mail once.
 */

const PARTS = { worker: 'dist/worker.js', server: 'dist/server.js', temporal: 'start-dev', postgres: 'postgres -D' };
type Part = keyof typeof PARTS;

const OBJECTS = isLong() ? 1_000 : 60;
const BATCH = isLong() ? 100 : 20;
/** events while only workers are killed, and while any process is */
const EVENTS: [string, number, Part[]][] = [
  ['the worker', isLong() ? 20_000 : 400, ['worker']],
  ['any process', isLong() ? 10_000 : 400, ['worker', 'server', 'temporal', 'postgres']],
];
/** events that wait while the store of Temporal is deleted */
const WAITING = isLong() ? 5_000 : 300;
/** seconds between two kills, at most */
const KILL_EVERY = isLong() ? 12 : 6;

const random = new Random(Number(process.env.CHAOS_SEED ?? 7));

let dataDir: string;
let settings: Record<string, string>;
let run: Started;
let api: Api;
let database: Database;
let account: Account;
let user: MailUser;
/** fails 3 of 10 calls at random */
let failing: Receiver;
/** accepts every call, unless it is off */
let sound: Receiver;
let isOff = false;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'kills-'));
  // as root, Postgres runs as a user who has to come through
  await chmod(dataDir, 0o711);
  settings = {
    PORT: String(await freePort()),
    TEMPORAL_UI_PORT: String(await freePort()),
    BOOTSTRAP_API_KEY: `test-${randomBytes(24).toString('hex')}`,
    WEBHOOK_RETRY_SCHEDULE: `200ms,500ms,1s,2s,${Array.from({ length: 20 }, () => '5s').join(',')}`,
    SYNC_HEARTBEAT_TIMEOUT: '4s',
  };
  run = start(dataDir, settings, 'scripts/start.mjs');
  await run.ready(200_000);
  database = await connectDatabase();
  api = new Api(`http://127.0.0.1:${settings['PORT']}`, settings['BOOTSTRAP_API_KEY'] as string);
  failing = await startReceiver();
  failing.answer = () => (random.chance(0.3) ? 500 : 200);
  sound = await startReceiver();
  sound.answer = () => (isOff ? 503 : 200);
  for (const receiver of [failing, sound]) await api.listen(receiver);
  user = await addUser();
  account = await api.connect(user);
}, 240_000);

afterAll(async () => {
  await database?.close();
  run?.child.kill('SIGTERM');
  await run?.ended();
  await Promise.all([failing?.close(), sound?.close()]);
  if (dataDir) await rm(dataDir, { recursive: true, force: true });
});

async function connectDatabase(): Promise<Database> {
  const [, , , port] = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n');
  const password = (await readFile(join(dataDir, 'postgres-password'), 'utf8')).trim();
  const url = `postgresql://mailbox:${password}@127.0.0.1:${port}/mailbox`;
  return openDatabase(url, { max: 2, logger: createLogger('silent', 'test') });
}

/** Postgres may be away, or be killed within the statement. */
async function untilDone<T>(work: () => Promise<T>): Promise<T> {
  const until = Date.now() + 60_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > until) throw error;
      await sleep(200);
    }
  }
}

/** Writes an event for each of these objects, in one transaction. */
async function record(objectIds: string[]): Promise<void> {
  const createdAt = new Date();
  const events = objectIds.map((objectId) => ({
    ...{ type: 'email.update' as const, objectId },
    ...{ data: { email: { id: objectId, message_id: null, body: 'x'.repeat(1_000) } }, createdAt },
  }));
  await untilDone(() => database.db.transaction((tx) => recordEvents(tx, account.id, events)));
}

/** A mail comes to the account, by another program. */
async function arrive(subject: string): Promise<void> {
  const box = await openMailbox(user);
  await box.append('INBOX', { subject });
  await box.close();
}

async function kill(part: Part): Promise<void> {
  const victim = run.handles().find(({ pid }) => commandOf(pid).includes(PARTS[part]));
  // it was killed a moment ago and has not been started again
  if (victim) process.kill(victim.pid, 'SIGKILL');
}

/** Compares the calls of an endpoint with the outbox of the account. */
async function check(receiver: Receiver): Promise<void> {
  const { rows } = await untilDone(() =>
    database.pool.query<{ id: string; object_id: string; sequence: string }>(
      'select id, object_id, sequence from events where account_id = $1 order by sequence',
      [account.id],
    ),
  );
  const first = new Map<string, Call>();
  for (const call of receiver.accepted({ account: account.id })) {
    if (!first.has(call.event.id)) first.set(call.event.id, call);
  }
  expect([...first.keys()].sort()).toEqual(rows.map(({ id }) => id).sort());
  const idsOf = new Map<string, Set<unknown>>();
  for (const { event, headers } of receiver.calls) {
    idsOf.set(event.id, (idsOf.get(event.id) ?? new Set()).add(headers['x-email-engine-delivery']));
  }
  expect([...idsOf].filter(([, ids]) => ids.size > 1)).toEqual([]);
  const objectOf = new Map(rows.map(({ id, object_id }) => [id, object_id]));
  const last = new Map<string, number>();
  const late: string[] = [];
  for (const [id, { event }] of first) {
    const object = objectOf.get(id) ?? '';
    if ((last.get(object) ?? 0) > event.sequence) late.push(`${object} ${event.sequence} after ${last.get(object)}`);
    last.set(object, event.sequence);
  }
  expect(late).toEqual([]);
}

async function allDelivered(timeoutMs: number): Promise<void> {
  const left = async () => {
    const { rows } = await database.pool.query<{ status: string; n: number }>(
      `select status, count(*)::int as n from deliveries where account_id = $1 and status <> 'delivered' group by 1`,
      [account.id],
    );
    return rows;
  };
  let rows = await untilDone(left);
  await waitFor(async () => (rows = await untilDone(left)).length === 0, {
    ...{ timeoutMs, everyMs: 250 },
    what: () => `all to be delivered: ${JSON.stringify(rows)}`,
  });
}

/** Waits until each of these mails is stored, which shows that the account is in sync. */
async function allIngested(subjects: string[], timeoutMs: number): Promise<void> {
  const missing = async () => {
    const { rows } = await database.pool.query<{ subject: string }>(
      'select subject from emails where account_id = $1 and subject = any($2)',
      [account.id, subjects],
    );
    const stored = new Set(rows.map(({ subject }) => subject));
    return subjects.filter((subject) => !stored.has(subject));
  };
  let left: string[] = subjects;
  await waitFor(async () => (left = await untilDone(missing)).length === 0, {
    ...{ timeoutMs, everyMs: 200 },
    what: () => `mail ${left.join(', ')}`,
  });
}

/** Each of these mails was reported as new by one event. */
function checkReportedOnce(subjects: string[]): void {
  const eventsOf = (subject: string) =>
    new Set(
      sound
        .accepted({ account: account.id, types: ['email.new'] })
        .filter((call) => emailOf(call).subject === subject)
        .map(({ event }) => event.id),
    );
  expect(subjects.filter((subject) => eventsOf(subject).size !== 1)).toEqual([]);
}

test.each(EVENTS)(
  'kill -9 of %s at random: every event is reported, in order',
  async (name, count, victims) => {
    const objects = Array.from({ length: OBJECTS }, () => newId('email'));
    const subjects: string[] = [];
    let isWriting = true;
    const killing = (async () => {
      while (isWriting) {
        await sleep(1_000 * (2 + random.below(KILL_EVERY - 2)));
        const victim = random.pick(victims);
        if (isWriting && victim) await kill(victim);
      }
    })();
    for (let written = 0; written < count; written += BATCH) {
      await record(Array.from({ length: BATCH }, () => random.pick(objects) as string));
      if (written % (5 * BATCH) === 0) {
        subjects.push(`${name} ${written}`);
        await arrive(`${name} ${written}`);
      }
      await sleep(isLong() ? 500 : 700);
    }
    isWriting = false;
    await killing;
    await allIngested(subjects, 120_000);
    await allDelivered(isLong() ? 1_200_000 : 120_000);
    checkReportedOnce(subjects);
    for (const receiver of [failing, sound]) await check(receiver);
  },
  isLong() ? 2_400_000 : 240_000,
);

test(
  'with the store of Temporal deleted, what waits is delivered, and the account is in sync again',
  async () => {
    isOff = true;
    const objects = Array.from({ length: OBJECTS }, () => newId('email'));
    for (let written = 0; written < WAITING; written += BATCH) {
      await record(Array.from({ length: BATCH }, () => random.pick(objects) as string));
    }
    await database.close();
    run.child.kill('SIGTERM');
    await run.ended();
    const files = (await readdir(dataDir)).filter((file) => file.startsWith('temporal.db'));
    expect(files).toContain('temporal.db');
    for (const file of files) await rm(join(dataDir, file));
    await arrive('while nothing ran');
    isOff = false;
    run = start(dataDir, settings, 'dist/start.js');
    await waitFor(() => READY.test(run.output()), { timeoutMs: 120_000, what: run.output });
    const readyAt = Date.now();
    database = await connectDatabase();
    await allIngested(['while nothing ran'], 120_000);
    console.log(`in sync ${Date.now() - readyAt} ms after the start`);
    await allDelivered(300_000);
    console.log(`all delivered ${Date.now() - readyAt} ms after the start`);
    checkReportedOnce(['while nothing ran']);
    for (const receiver of [failing, sound]) await check(receiver);
  },
  isLong() ? 900_000 : 480_000,
);
