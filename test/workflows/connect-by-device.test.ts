import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { DevicePoll } from '../../src/activities/device-sign-in.ts';
import { withFailures } from '../../src/activities/failures.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { newId } from '../../src/new-id.ts';
import { deviceWorkflowId, QUEUES, WORKFLOWS } from '../../src/workflows/names.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';

/** The run that waits for an owner who signs in on another device. */

let workers: TestWorkers;
let polls: (() => DevicePoll)[];
let asked: number[];
let ended: unknown[];
let started: string[];
const accountId = newId('account');

beforeAll(async () => {
  const activities = {
    pollDevice: async () => {
      asked.push(Date.now());
      const next = polls.shift();
      if (!next) throw new Error('one request too many');
      return next();
    },
    verifyMailbox: async ({ intentId }: { intentId: string }) => {
      if (intentId !== 'int_1') throw new ApiError('invalid_credentials', 'the IMAP server refused the login');
      return { accountId };
    },
    startAccount: async (start: { accountId: string }) => void started.push(start.accountId),
    endDeviceSignIn: async (end: unknown) => void ended.push(end),
  };
  workers = await startTestWorkers(withFailures(activities));
}, 60_000);
afterAll(() => workers.stop());
beforeEach(() => {
  [asked, ended, started] = [[], [], []];
});

/** Between the requests, ms. */
const waits = () => asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
const signInId = () => newId('deviceSignIn');
const run = (id: string) =>
  workers.client.workflow.execute(WORKFLOWS.connectByDevice, {
    taskQueue: QUEUES.commands,
    workflowId: deviceWorkflowId(id),
    args: [{ signInId: id, intervalS: 5, pace: 0.02 }],
  });

it('asks at the interval of the provider, which only grows, and connects when the owner agrees', async () => {
  const id = signInId();
  const slower = () => ({ waitS: 55, slowerS: 50 });
  polls = [() => ({ waitS: 5 }), slower, slower, () => ({ waitS: 5 }), () => ({ intentId: 'int_1' })];
  expect(await run(id)).toEqual({ accountId });
  expect(started).toEqual([accountId]);
  expect(ended).toEqual([{ signInId: id, accountId }]);
  const [second = 0, third = 0, fourth = 0, fifth = 0] = waits();
  expect(second).toBeGreaterThanOrEqual(95);
  expect(third).toBeGreaterThanOrEqual(1090);
  expect([fourth, fifth].every((ms) => ms >= 2090)).toBe(true);
});

it('waits once for a provider that is away', async () => {
  polls = [() => ({ waitS: 100 }), () => ({ waitS: 5 }), () => ({ waitS: 5 }), () => ({ intentId: 'int_1' })];
  expect(await run(signInId())).toEqual({ accountId });
  const [away = 0, ...later] = waits();
  expect(away).toBeGreaterThanOrEqual(1990);
  expect(later.every((ms) => ms < 1900)).toBe(true);
});

it('ends quietly when the owner did not agree in time', async () => {
  polls = [() => ({ over: true })];
  expect(await run(signInId())).toBeUndefined();
  expect([ended, started]).toEqual([[], []]);
});

it.each<[string, () => DevicePoll, string]>([
  [
    'the owner refuses',
    () => {
      throw new ApiError('invalid_credentials', 'the owner refused access (access_denied)');
    },
    'the owner refused access (access_denied)',
  ],
  ['a mail server refuses the login', () => ({ intentId: 'int_2' }), 'the IMAP server refused the login'],
])('fails with the reason when %s', async (_, poll, failure) => {
  const id = signInId();
  polls = [poll];
  await expect(run(id)).rejects.toThrow();
  expect(ended).toEqual([{ signInId: id, failure }]);
  expect(started).toEqual([]);
});
