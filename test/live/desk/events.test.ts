import { beforeAll, expect, test } from '@jest/globals';
import { recordEvents } from '../../../src/db/outbox.ts';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, deskTests, isCall } from './desk.ts';

/** The page of events as they happen, in a real browser. */

const signedIn = deskTests();
let desk: Desk;
let happened = 0;
beforeAll(() => void (desk = signedIn()));

/** The next emails arrive, numbered on from the last one. */
const happen = (count: number) =>
  desk.api.database.db.transaction((tx) =>
    recordEvents(
      tx,
      desk.account,
      Array.from({ length: count }, () => {
        const objectId = newId('email');
        const email = { id: objectId, subject: `Number ${++happened}` };
        return { type: 'email.new' as const, objectId, data: { email }, createdAt: new Date() };
      }),
    ),
  );
const numbers = async () =>
  (await desk.page.$$eval('tbody tr', (rows) => rows.map((row) => row.textContent ?? '')))
    .map((text) => Number(/Number (\d+)/.exec(text)?.[1]))
    .filter((number) => number > 0);
const newestFirst = (from: number, count: number) => Array.from({ length: count }, (_, index) => from - index);
/** All rows are in order, without a gap, from the last event on. */
const isComplete = (least: number) =>
  waitFor(
    async () => {
      const all = await numbers();
      return all.length >= least && String(all) === String(newestFirst(happened, all.length));
    },
    { what: () => `${least} rows or more from ${happened} down`, timeoutMs: 25_000 },
  );

test('is live again after the stream was refused', async () => {
  const failed = { object: 'Error', type: 'errors/service_unavailable', title: 'Away', detail: 'x', status: 503 };
  const streams = desk.answer(isCall('GET', '/events/stream'), (index) =>
    index === 0 ? { status: 503, json: failed } : undefined,
  );
  await desk.open('/events');
  await desk.page.waitForSelector('.live.on');
  expect(streams).toHaveLength(2);
  await happen(1);
  await isComplete(1);
}, 60_000);

test('has what happened while it was paused, in its order', async () => {
  await happen(1);
  await isComplete(2);
  await desk.click('Pause', 'button');
  await happen(3);
  await desk.click('Resume', 'button');
  await isComplete(5);
}, 60_000);

test('has no gap after more events than it keeps beside the list', async () => {
  await happen(260);
  await isComplete(50);
}, 60_000);
