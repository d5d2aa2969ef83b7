import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isLong } from '../../helpers/runner/long.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Two worker processes: one is killed, the other takes its mailboxes over, and shares them with the next that comes. */

const MAILBOXES = isLong() ? 20 : 8;

let live: OwnLive;
let owners: ConnectedUser[];

beforeAll(async () => {
  // Temporal would notice after ten minutes that a worker is gone
  live = await startLive({ SYNC_HEARTBEAT_TIMEOUT: '10m' });
  owners = [];
  for (let count = 0; count < MAILBOXES; count++) owners.push(await connectUser(live));
}, 180_000);

afterAll(async () => {
  for (const { box } of owners ?? []) await box.close();
  await live?.close();
});

/** Mailboxes by living worker, fewest first. */
async function watches(): Promise<number[]> {
  const { rows } = await live.pool.query<{ watches: number }>(
    `select watches from workers where seen_at > now() - interval '4 seconds' order by watches`,
  );
  return rows.map((row) => row.watches);
}

/** Every mailbox gets a mail, which is reported once. */
async function allReport(subject: string, timeoutMs: number): Promise<void> {
  await Promise.all(owners.map(({ box }) => box.append('INBOX', { subject })));
  const reported = () =>
    live.receiver.accepted({ types: ['email.new'] }).filter((call) => emailOf(call).subject === subject);
  const accounts = () => new Set(reported().map(({ event }) => event.account_id));
  await waitFor(() => accounts().size === MAILBOXES, {
    timeoutMs,
    what: () => `"${subject}" of ${MAILBOXES} mailboxes; came: ${accounts().size}`,
  });
  expect(new Set(reported().map(({ event }) => event.id)).size).toBe(MAILBOXES);
}

test('the mailboxes of a killed worker are watched by the other within a minute', async () => {
  live.product.addWorker();
  await waitFor(async () => (await watches()).length === 2, { timeoutMs: 60_000, what: 'the further worker' });
  await allReport('with both', 60_000);
  await live.product.killWorker();
  await allReport('with one', 60_000);
  let now: number[] = [];
  await waitFor(async () => (now = await watches()).join() === `${MAILBOXES}`, {
    timeoutMs: 60_000,
    what: () => `one worker to watch all; now: ${now.join(', ')}`,
  });
}, 180_000);

test('a worker that comes back gets its share within five minutes, without duplicate reports', async () => {
  live.product.addWorker();
  let now: number[] = [];
  // both have about half: each keeps one more than its share at most
  await waitFor(async () => ((now = await watches()), now.length === 2 && (now[0] ?? 0) >= MAILBOXES / 2 - 2), {
    timeoutMs: 300_000,
    what: () => `the mailboxes to be shared; now: ${now.join(', ')}`,
  });
  await allReport('with two again', 60_000);
  expect(live.receiver.faults).toEqual([]);
}, 420_000);
