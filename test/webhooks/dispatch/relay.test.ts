import { afterEach, describe, expect, it } from '@jest/globals';
import { LINES } from '../../../src/db/outbox.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import type { ClaimedDelivery, ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { type Dispatching, Relay } from '../../../src/webhooks/dispatch/relay.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** A queue: deliveries wait by endpoint, and every turn makes one run. */
class Queue {
  readonly waiting = new Map<string, string[]>();
  readonly started: string[] = [];
  readonly marked: string[] = [];
  looks = 0;
  claims = 0;
  /** lines of one look */
  linesAtATime = 50;
  unstarted: ClaimedRun[] = [];
  /** what `start` does, by default say that the first task is here */
  onStart: (run: ClaimedRun) => Promise<boolean> = async () => true;
  notice = () => {};

  add(endpointId: string, ...ids: string[]): void {
    this.waiting.set(endpointId, [...(this.waiting.get(endpointId) ?? []), ...ids]);
    this.notice();
  }

  relay(times: Dispatching['times'] = {}): Relay {
    relay = new Relay({
      due: async (after) => {
        this.looks += 1;
        const ids = [...this.waiting.keys()].sort().filter((id) => id > (after?.endpointId ?? ''));
        const lines = ids.slice(0, this.linesAtATime).map(lineOf);
        return { lines, next: ids.length > lines.length ? lines.at(-1) : undefined };
      },
      claim: async (turns) => {
        this.claims += 1;
        return turns.map((turn) => {
          const ids = this.waiting.get(turn.endpointId) ?? [];
          const deliveries = ids.splice(0, turn.most).map((id) => delivery(id, turn.endpointId));
          if (ids.length === 0) this.waiting.delete(turn.endpointId);
          const workflowId = `run of ${deliveries.map(({ id }) => id).join()}`;
          return { turn, runs: [{ workflowId, deliveries }], hasMore: ids.length > 0 };
        });
      },
      start: async (run) => {
        const here = await this.onStart(run);
        this.started.push(run.workflowId);
        return here;
      },
      unstarted: async () => this.unstarted,
      markStarted: async (runs) => void this.marked.push(...runs.map(({ deliveryId }) => deliveryId)),
      listen: (wake) => {
        this.notice = wake;
        return { close: async () => {} };
      },
      logger: createLogger('silent', 'test'),
      times: { poll: 60_000, sweep: 60_000, mark: 60_000, ...times },
    });
    return relay;
  }
}

const lineOf = (endpointId: string) => ({
  endpointId,
  line: LINES.live,
  isFailing: false,
  isProbe: false,
});
const delivery = (id: string, endpointId: string): ClaimedDelivery => ({
  ...{ id, endpointId, accountId: 'acc', eventId: id, eventType: 'email.new', objectId: id },
  ...{ sequence: 1, runs: 0, line: LINES.live, isFailing: false },
});
const many = (count: number) => Array.from({ length: count }, (_, index) => String(index));

let relay: Relay | undefined;
afterEach(() => relay?.stop());

const rest = () => new Promise((resolve) => setTimeout(resolve, 50));

describe('the relay', () => {
  it('starts waiting deliveries, and those that it is notified of, without waiting for the poll', async () => {
    const queue = new Queue();
    queue.add('a', '1');
    queue.relay();
    await waitFor(() => queue.started.length === 1, { everyMs: 1 });
    await rest();
    queue.add('b', '2');
    // the next poll is a minute away: only the notification can have started it
    await waitFor(() => queue.started.length === 2, { everyMs: 1, timeoutMs: 20_000 });
    expect(queue.started).toEqual(['run of 1', 'run of 2']);
  });

  it('polls, in case a notification was lost', async () => {
    const queue = new Queue();
    queue.relay({ poll: 30 });
    await rest();
    queue.waiting.set('a', ['1']);
    await waitFor(() => queue.started.length === 1, { everyMs: 5 });
  });

  it('lets deliveries that come together gather, and starts them soon after', async () => {
    const queue = new Queue();
    queue.relay({ spacing: 1 });
    queue.add('a', '1');
    await waitFor(() => queue.started.length === 1, { everyMs: 1 });
    for (const id of ['2', '3', '4']) queue.add('a', id);
    // no notification follows
    await waitFor(() => queue.started.length === 2, { everyMs: 1, timeoutMs: 20_000 });
    expect(queue.started).toEqual(['run of 1', 'run of 2,3,4']);
  });

  it('gives an endpoint its next run when one has ended, and serves others beside it', async () => {
    const queue = new Queue();
    queue.add('a', ...many(700));
    const made = queue.relay();
    await waitFor(() => queue.started.length === 4, { everyMs: 1 });
    queue.add('b', 'one');
    await waitFor(() => queue.started.includes('run of one'), { everyMs: 1, timeoutMs: 20_000 });
    for (const run of queue.started) made.attempts(run, 'ended');
    await waitFor(() => queue.started.length === 8, { everyMs: 1 });
  });

  it('reaches all lines, however many there are', async () => {
    const queue = new Queue();
    queue.linesAtATime = 2;
    for (const id of ['a', 'b', 'c', 'd', 'e']) queue.waiting.set(id, [id]);
    queue.relay();
    await waitFor(() => queue.started.length === 5, { everyMs: 1 });
    await rest();
    // it does not look again
    const { looks } = queue;
    await rest();
    expect(queue.looks).toBe(looks);
  });

  it('waits only briefly for a run on another worker', async () => {
    const queue = new Queue();
    queue.onStart = async () => false;
    queue.add('a', ...many(500));
    queue.relay({ elsewhere: 30 });
    await waitFor(() => queue.started.length === 5, { everyMs: 5 });
  });

  it('repeats the start of a run until it succeeds, without delaying others', async () => {
    const queue = new Queue();
    let failures = 3;
    queue.onStart = async ({ workflowId }) => {
      if (workflowId === 'run of 1' && failures-- > 0) throw new Error('unavailable');
      return true;
    };
    queue.relay({ startAgain: 20 });
    queue.add('a', '1');
    queue.add('b', '2');
    await waitFor(() => queue.started.length === 2, { everyMs: 5 });
    expect(queue.started).toEqual(['run of 2', 'run of 1']);
  });

  it('starts runs that were claimed and never started, except those that it is starting', async () => {
    const queue = new Queue();
    let answer = (_here: boolean) => {};
    queue.onStart = ({ workflowId }) =>
      workflowId === 'run of 1' ? new Promise((resolve) => (answer = resolve)) : Promise.resolve(true);
    queue.relay({ sweep: 20 });
    queue.add('a', '1');
    await rest();
    queue.unstarted = ['run of 1', 'lost'].map((workflowId) => ({ workflowId, deliveries: [delivery('x', 'a')] }));
    await waitFor(() => queue.started.includes('lost'), { everyMs: 5 });
    answer(true);
    await waitFor(() => queue.started.includes('run of 1'), { everyMs: 5 });
    expect(queue.started.filter((run) => run === 'run of 1')).toHaveLength(1);
  });

  it('records which runs were started, at the latest when it stops; it claims nothing after that', async () => {
    const queue = new Queue();
    const made = queue.relay();
    queue.add('a', '1', '2');
    await waitFor(() => queue.started.length === 1, { everyMs: 1 });
    await made.stop();
    expect(queue.marked).toEqual(['1', '2']);
    queue.add('a', '3');
    await rest();
    expect(queue.started).toHaveLength(1);
  });

  it('looks again when a run ends only where a line waits for a place', async () => {
    const queue = new Queue();
    const made = queue.relay();
    queue.add('a', '1');
    await waitFor(() => queue.started.includes('run of 1'), { everyMs: 1 });
    await rest();
    const { looks } = queue;
    made.attempts('run of 1', 'ended');
    await rest();
    expect(queue.looks).toBe(looks);
    queue.add('a', ...many(500));
    await waitFor(() => queue.started.length === 5, { everyMs: 1 });
    await rest();
    made.attempts(queue.started[1] ?? '', 'ended');
    // well before the run counts as one that waits for its endpoint
    await waitFor(() => queue.started.length === 6, { everyMs: 1 });
  });

  it('serves lines in turn when more of them have a backlog than there are places', async () => {
    const queue = new Queue();
    queue.linesAtATime = 10;
    const ids = Array.from({ length: 40 }, (_, n) => `endpoint ${String(n).padStart(2, '0')}`);
    for (const id of ids)
      queue.waiting.set(
        id,
        many(3_000).map((n) => `${id} ${n}`),
      );
    const made = queue.relay();
    const served = new Map<string, number>();
    queue.onStart = async ({ workflowId, deliveries: [first] }) => {
      served.set(first?.endpointId ?? '', (served.get(first?.endpointId ?? '') ?? 0) + 1);
      setTimeout(() => made.attempts(workflowId, 'ended'), 40);
      return true;
    };
    await waitFor(() => [...served.values()].reduce((a, b) => a + b, 0) >= 400, { everyMs: 5, timeoutMs: 20_000 });
    const runs = ids.map((id) => served.get(id) ?? 0);
    expect(Math.min(...runs)).toBeGreaterThan(Math.max(...runs) / 3);
  });

  it('is quiet at rest', async () => {
    const queue = new Queue();
    queue.relay();
    await rest();
    const before = queue.looks;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(queue.looks).toBe(before);
  });
});
