import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { connectUser, type Live, joinLive } from '../helpers/product/live.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** A mailbox in which nothing happens, with the interval of polls that is the default. */

const MAILBOXES = 5;
/** Four polls; a connection that is given up between two is gone by then. */
const REST_MS = 110_000;

let live: Live;

beforeAll(async () => {
  live = await joinLive();
}, 120_000);
afterAll(() => live?.close());

it('keeps its connection from poll to poll', async () => {
  const accounts: string[] = [];
  for (let n = 0; n < MAILBOXES; n++) accounts.push((await connectUser(live)).account.id);
  // a watch that restarts takes a new lease
  const watches = async () => {
    const { rows } = await live.pool.query<{ id: string; epoch: number; synced: boolean; failure: string }>(
      `select id, watch_epoch::int as epoch, last_synced_at is not null as synced, watch_failure as failure
       from accounts where id = any($1) order by id`,
      [accounts],
    );
    return rows;
  };
  await waitFor(async () => (await watches()).every(({ synced }) => synced), { timeoutMs: 30_000 });
  const before = await watches();
  await sleep(REST_MS);
  expect(await watches()).toEqual(before);
}, 200_000);
