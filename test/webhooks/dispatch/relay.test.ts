import { afterEach, describe, expect, it } from '@jest/globals';
import { LINES } from '../../../src/db/outbox.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import type { ClaimedDelivery, ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { type Dispatching, type Relay, relayOf } from '../../../src/webhooks/dispatch/relay.ts';
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
  /** turns put off what follows in the same objects */
  isBehind = false;
  unstarted: ClaimedRun[] = [];
  /** what `start` does, by default say that the first task is here */
  onStart: (run: ClaimedRun) => Promise<boolean> = async () => true;
  notice = () => {};

  add(endpointId: string, ...ids: string[]): void {
    this.waiting.set(endpointId, [...(this.waiting.get(endpointId) ?? []), ...ids]);
    this.notice();
  }

  relay(times: Dispatching['times'] = {}): Relay {
    relay = relayOf({
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
          return { turn, runs: [{ workflowId, deliveries }], hasMore: ids.length > 0, isBehind: this.isBehind };
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
  it('starts what waits, and what is notified, without waiting for the poll', async () => {
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

  it('lets deliveries that come together gather, and comes back for them', async () => {
    const queue = new Queue();
    queue.relay({ spacing: 1 });
    queue.add('a', '1');
    await waitFor(() => queue.started.length === 1, { everyMs: 1 });
    for (const id of ['2', '3', '4']) queue.add('a', id);
    // nobody notifies after that
    await waitFor(() => queue.started.length === 2, { everyMs: 1, timeoutMs: 20_000 });
    expect(queue.started).toEqual(['run of 1', 'run of 2,3,4']);
  });

  it('gives an endpoint its next run when one has ended, and others theirs beside it', async () => {
    const queue = new Queue();
    queue.add('a', ...many(700));
    const { attempts } = queue.relay();
    await waitFor(() => queue.started.length === 4, { everyMs: 1 });
    queue.add('b', 'one');
    await waitFor(() => queue.started.includes('run of one'), { everyMs: 1, timeoutMs: 20_000 });
    for (const run of queue.started) attempts(run, 'ended', { isDelivered: true });
    await waitFor(() => queue.started.length === 8, { everyMs: 1 });
  });

  it('comes to all lines, however many there are', async () => {
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

  it('waits for a run that another worker has for a while only', async () => {
    const queue = new Queue();
    queue.onStart = async () => false;
    queue.add('a', ...many(500));
    queue.relay({ elsewhere: 30 });
    await waitFor(() => queue.started.length === 5, { everyMs: 5 });
  });

  it('starts a run again until it is started, without holding up others', async () => {
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

  it('starts runs that were given deliveries and never started, unless it is just starting them', async () => {
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

  it('records which runs were started, at the latest when it stops; then it claims nothing', async () => {
    const queue = new Queue();
    const { stop } = queue.relay();
    queue.add('a', '1', '2');
    await waitFor(() => queue.started.length === 1, { everyMs: 1 });
    await stop();
    expect(queue.marked).toEqual(['1', '2']);
    queue.add('a', '3');
    await rest();
    expect(queue.started).toHaveLength(1);
  });

  it('looks again when a run ends only where something may be due by that', async () => {
    const queue = new Queue();
    const { attempts } = queue.relay();
    const startOne = async (id: string) => {
      queue.add('a', id);
      await waitFor(() => queue.started.includes(`run of ${id}`), { everyMs: 1 });
      await rest();
      return queue.looks;
    };
    let before = await startOne('1');
    attempts('run of 1', 'ended', { isDelivered: true });
    await rest();
    expect(queue.looks).toBe(before);
    await startOne('2');
    // something came while it was under way, which may be of the same object
    queue.notice();
    await rest();
    before = queue.looks;
    attempts('run of 2', 'ended', { isDelivered: true });
    await waitFor(() => queue.looks > before, { everyMs: 1 });
    // the claim put off what follows
    queue.isBehind = true;
    before = await startOne('3');
    attempts('run of 3', 'ended', { isDelivered: true });
    await waitFor(() => queue.looks > before, { everyMs: 1 });
    queue.isBehind = false;
    // what comes of a failure may be due
    before = await startOne('4');
    attempts('run of 4', 'ended', {});
    await waitFor(() => queue.looks > before, { everyMs: 1 });
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
