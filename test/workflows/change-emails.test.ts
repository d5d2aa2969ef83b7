import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { withFailures } from '../../src/activities/failures.ts';
import { LeaseLost } from '../../src/db/coordination/lease.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { batchStart } from '../../src/workflows/names.ts';
import type { ChangeEmailsInput } from '../../src/workflows/change-emails.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';

/** A change of many emails as a run: its steps, and its end when it cannot be made. */

/** A step that fails after some time. */
class Late {
  readonly ms: number;
  readonly error: Error;
  constructor(ms: number, error: Error) {
    this.ms = ms;
    this.error = error;
  }
}

let workers: TestWorkers;
/** what the next steps return or throw, late if at all: a number of pending emails, a member of the result, or an error */
let steps: (number | object)[] = [];
let ended: object[] = [];

const progress = (pending: number) => ({ total: 3, changed: 3 - pending, failed: 0, pending });

beforeAll(async () => {
  workers = await startTestWorkers(
    withFailures({
      async changeEmailsOf() {
        const step = steps.shift() ?? 0;
        if (step instanceof Error) throw step;
        if (step instanceof Late) {
          await sleep(step.ms);
          throw step.error;
        }
        return typeof step === 'number' ? progress(step) : { ...progress(1), ...step };
      },
      async failBatch(input: object) {
        ended.push(input);
        return { total: 3, changed: 0, failed: 3, pending: 0 };
      },
    }),
  );
}, 60_000);
afterAll(() => workers.stop());

async function run(input: Partial<ChangeEmailsInput> = {}) {
  ended = [];
  const [batchId, accountId] = [newId('batch'), newId('account')];
  const [type, options] = batchStart({ id: batchId, accountId });
  const handle = await workers.api.workflow.start(type, { ...options, args: [{ ...options.args[0], ...input }] });
  const result: unknown = await handle.result();
  const { events } = await handle.fetchHistory();
  const timers = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => {
    return timer ? [Number(timer.startToFireTimeout?.seconds) + Number(timer.startToFireTimeout?.nanos) / 1e9] : [];
  });
  return { batchId, result, timers };
}

/** One attempt: its failure is not retried. */
const unreachable = () => new MailError('provider_error', 'imap', 'connection refused', { temporary: false });

it('makes steps until no email is pending', async () => {
  steps = [2, 1];
  expect(await run()).toMatchObject({ result: progress(0), timers: [] });
  expect([steps, ended]).toEqual([[], []]);
});

it('ends when the account cannot be changed: what is pending fails', async () => {
  steps = [new MailError('invalid_credentials', 'imap', 'the provider rejected the login')];
  const { batchId, result } = await run();
  expect(result).toMatchObject({ failed: 3, pending: 0 });
  expect(ended).toEqual([
    { batchId, error: { code: 'invalid_credentials', detail: 'the provider rejected the login' } },
  ]);
});

it('waits while the mail server is away', async () => {
  steps = [unreachable(), 1, unreachable()];
  const { result, timers } = await run();
  expect([result, ended]).toEqual([progress(0), []]);
  // the count of failures begins anew after a step that was made
  expect(timers.map((seconds) => seconds < 1.5)).toEqual([true, true]);
}, 30_000);

it('ends when the mail server is away for too long', async () => {
  steps = [1, unreachable()];
  const { batchId, result } = await run({ patienceMs: 0 });
  expect(result).toMatchObject({ failed: 3, pending: 0 });
  expect(ended).toEqual([{ batchId, error: { code: 'provider_error', detail: 'connection refused' } }]);
});

it('waits for a mail server that fails after a long time without a step', async () => {
  steps = [1, new Late(1_500, unreachable())];
  expect((await run({ patienceMs: 1_000 })).result).toEqual(progress(0));
  expect(ended).toEqual([]);
});

it('sleeps while an earlier batch comes first, and as long as the mail server asks', async () => {
  steps = [{ isBehind: true }, { isBehind: true }, { pauseMs: 1_234 }];
  const { result, timers } = await run();
  expect(result).toEqual(progress(0));
  const [first = 0, second = 0, pause] = timers;
  expect([first >= 0.4 && first <= 0.6, second >= 0.8 && second <= 1.2, pause]).toEqual([true, true, 1.234]);
}, 30_000);

it('ends when the mail server asks for pauses for too long without a change in between', async () => {
  const pauseDetail = 'the IMAP server refused STORE: throttled';
  steps = [{ pauseMs: 0, pending: 2 }, ...Array<object>(20).fill({ pauseMs: 0, pauseDetail })];
  const { batchId, result, timers } = await run({ patienceMs: 1_500 });
  expect(result).toMatchObject({ failed: 3, pending: 0 });
  expect(ended).toEqual([{ batchId, error: { code: 'provider_error', detail: pauseDetail } }]);
  expect(timers).toEqual([1, 1, 1]);
}, 30_000);

it('is patient anew with a mail server that asks for pauses after an outage of this installation', async () => {
  steps = [{ pauseMs: 0 }, new LeaseLost('acc_1'), { pauseMs: 0 }];
  const { result, timers } = await run({ patienceMs: 1_000, pace: 0.1 });
  expect([result, ended]).toEqual([progress(0), []]);
  expect(timers).toEqual([0.1, 3, 0.1]);
}, 30_000);

it('counts the pauses of the execution before', async () => {
  steps = [{ pauseMs: 0 }];
  const { result, timers } = await run({ patienceMs: 5_000, carried: { since: Date.now() - 5_000, pending: 1 } });
  expect([result, timers]).toEqual([{ total: 3, changed: 0, failed: 3, pending: 0 }, []]);
});
