import { afterEach, describe, expect, it } from '@jest/globals';
import { createLogger } from '../../../src/runtime/logger.ts';
import { type Dispatch, type DispatchedRun, startDispatch } from '../../../src/webhooks/dispatch/dispatch.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** An outbox: deliveries wait by endpoint, and every claim makes one run of an endpoint's. */
class Outbox {
  readonly waiting = new Map<string, string[]>();
  readonly started: string[] = [];
  readonly marked: string[] = [];
  claims = 0;
  /** claims after which other endpoints have their turn */
  slices = 0;
  /** what a claim takes of an endpoint at most, where many have their turn */
  share = Number.POSITIVE_INFINITY;
  /** claims leave what follows in the same objects */
  hasLeft = false;
  /** endpoints whose last attempts failed */
  readonly failing = new Set<string>();
  unstarted: DispatchedRun[] = [];
  /** what `start` does, by default say that the first task is here */
  onStart: (run: DispatchedRun) => Promise<boolean> = async () => true;
  notice = () => {};

  add(endpointId: string, ...ids: string[]): void {
    this.waiting.set(endpointId, [...(this.waiting.get(endpointId) ?? []), ...ids]);
    this.notice();
  }

  dispatch(times: NonNullable<Parameters<typeof startDispatch>[0]['times']> = {}): Dispatch {
    dispatch = startDispatch({
      claim: async ({ perEndpoint, only, except, costly }) => {
        this.claims++;
        let failing = 0;
        const runs = [...this.waiting].flatMap(([endpointId, ids]) => {
          if (only ? !only.includes(endpointId) : except.includes(endpointId)) return [];
          if (!only && this.failing.has(endpointId) && ++failing > costly) return [];
          const taken = ids.splice(0, Math.min(perEndpoint, this.share));
          if (ids.length === 0) this.waiting.delete(endpointId);
          return {
            workflowId: `run of ${taken.join()}`,
            deliveries: taken.map((id) => ({
              id,
              endpointId,
              isReplay: false,
              isFailing: this.failing.has(endpointId),
              isProven: true,
            })),
          };
        });
        return {
          runs,
          isMore: this.slices-- > 0,
          perEndpoint: Math.min(perEndpoint, this.share),
          hasLeft: this.hasLeft,
        };
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
    return dispatch;
  }
}

let dispatch: Dispatch | undefined;
afterEach(() => dispatch?.stop());

const rest = () => new Promise((resolve) => setTimeout(resolve, 50));

describe('dispatching', () => {
  it('starts what waits, and what is notified, without waiting for the poll', async () => {
    const outbox = new Outbox();
    outbox.add('a', '1');
    outbox.dispatch();
    await waitFor(() => outbox.started.length === 1, { everyMs: 1 });
    await rest();
    outbox.add('b', '2');
    // the next poll is a minute away: only the notification can have started it
    await waitFor(() => outbox.started.length === 2, { everyMs: 1, timeoutMs: 20_000 });
    expect(outbox.started).toEqual(['run of 1', 'run of 2']);
  });

  it('comes soon to endpoints that it left out since others that fail have runs', async () => {
    const outbox = new Outbox();
    const endpoints = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const id of endpoints) outbox.failing.add(id);
    for (const id of endpoints) outbox.waiting.set(id, [id]);
    outbox.dispatch();
    await waitFor(() => outbox.started.length > 0, { everyMs: 1 });
    expect(outbox.started).toEqual(['a', 'b', 'c', 'd'].map((id) => `run of ${id}`));
    // nobody notifies, and the next poll is a minute away
    await waitFor(() => outbox.started.length === endpoints.length, { timeoutMs: 20_000 });
  });

  it('polls, in case a notification was lost', async () => {
    const outbox = new Outbox();
    outbox.dispatch({ poll: 30 });
    await rest();
    outbox.waiting.set('a', ['1']);
    await waitFor(() => outbox.started.length === 1, { everyMs: 5 });
  });

  it('lets the deliveries of a busy endpoint gather', async () => {
    const outbox = new Outbox();
    outbox.dispatch({ pace: { one: 300, busy: 300, failing: 300 } });
    outbox.add('a', '1');
    await waitFor(() => outbox.started.length === 1, { everyMs: 1 });
    for (const id of ['2', '3', '4']) {
      outbox.add('a', id);
      await new Promise((resolve) => setTimeout(resolve, 12));
    }
    outbox.add('b', '5');
    await waitFor(() => outbox.started.length === 3, { everyMs: 1 });
    expect(outbox.started).toEqual(['run of 1', 'run of 5', 'run of 2,3,4']);
  });

  it('gives an endpoint no further run while four make their first attempts', async () => {
    const outbox = new Outbox();
    outbox.add('a', ...Array.from({ length: 600 }, (_, index) => String(index)));
    const { attempts } = outbox.dispatch();
    await waitFor(() => outbox.started.length === 4, { everyMs: 1 });
    await rest();
    expect(outbox.started).toHaveLength(4);
    attempts(outbox.started[1] ?? '', 'ended');
    await waitFor(() => outbox.started.length === 5, { everyMs: 1 });
    await rest();
    expect(outbox.started).toHaveLength(5);
  });

  it('claims at once for an endpoint while another is throttled, and seldom where claims get nothing', async () => {
    const outbox = new Outbox();
    outbox.add('a', ...Array.from({ length: 600 }, (_, index) => String(index)));
    outbox.dispatch({ throttledSpacing: 5_000 });
    await waitFor(() => outbox.started.length === 4, { everyMs: 1 });
    await rest();
    // more for the one that is throttled
    outbox.notice();
    await rest();
    outbox.add('b', 'one');
    await waitFor(() => outbox.started.includes('run of one'), { everyMs: 1, timeoutMs: 4_000 });
    const { claims } = outbox;
    for (let n = 0; n < 6; n++) {
      outbox.notice();
      await rest();
    }
    expect(outbox.claims - claims).toBeLessThanOrEqual(4);
  });

  it('goes on at once with an endpoint that had more than its share of a claim', async () => {
    const outbox = new Outbox();
    outbox.share = 2;
    outbox.add('a', '1', '2', '3', '4', '5', '6');
    outbox.dispatch({ pace: { one: 60_000, busy: 60_000, failing: 60_000 } });
    await waitFor(() => outbox.started.length === 3, { everyMs: 5 });
    expect(outbox.started).toEqual(['run of 1,2', 'run of 3,4', 'run of 5,6']);
  });

  it('gives endpoints that fail their runs in turn, and a healthy one does not wait for them', async () => {
    const outbox = new Outbox();
    const bad = Array.from({ length: 10 }, (_, n) => `bad ${n}`);
    for (const id of bad) {
      outbox.failing.add(id);
      outbox.add(id, `first of ${id}`);
    }
    const { attempts } = outbox.dispatch({ pace: { one: 1, busy: 1, failing: 1 }, costly: 20 });
    await waitFor(() => outbox.started.length === 10, { everyMs: 1 });
    for (const run of outbox.started) attempts(run, 'ended', { delivered: false });
    const before = outbox.started.length;
    for (const id of bad) outbox.add(id, `second of ${id}`);
    outbox.add('good', 'one');
    await waitFor(() => outbox.started.length === 21, { everyMs: 5, timeoutMs: 20_000 });
    // at most the turns of the moment come before it
    expect(outbox.started.indexOf('run of one') - before).toBeLessThanOrEqual(2);
  });

  it('waits for a run that another worker has for a while only', async () => {
    const outbox = new Outbox();
    outbox.onStart = async () => false;
    outbox.add('a', ...Array.from({ length: 500 }, (_, index) => String(index)));
    outbox.dispatch({ elsewhere: 30 });
    await waitFor(() => outbox.started.length === 5, { everyMs: 5 });
  });

  it('starts a run again until it is started, without holding up others', async () => {
    const outbox = new Outbox();
    let failures = 3;
    outbox.onStart = async ({ workflowId }) => {
      if (workflowId === 'run of 1' && failures-- > 0) throw new Error('unavailable');
      return true;
    };
    outbox.dispatch({ startAgain: 20 });
    outbox.add('a', '1');
    outbox.add('b', '2');
    await waitFor(() => outbox.started.length === 2, { everyMs: 5 });
    expect(outbox.started).toEqual(['run of 2', 'run of 1']);
  });

  it('starts runs that were given deliveries and never started, unless it is just starting them', async () => {
    const outbox = new Outbox();
    let answer = (_here: boolean) => {};
    outbox.onStart = ({ workflowId }) =>
      workflowId === 'run of 1' ? new Promise((resolve) => (answer = resolve)) : Promise.resolve(true);
    outbox.dispatch({ sweep: 20 });
    outbox.add('a', '1');
    await rest();
    outbox.unstarted = ['run of 1', 'lost'].map((workflowId) => ({
      workflowId,
      deliveries: [{ id: 'x', endpointId: 'a', isReplay: false, isFailing: false, isProven: true }],
    }));
    await waitFor(() => outbox.started.includes('lost'), { everyMs: 5 });
    answer(true);
    await waitFor(() => outbox.started.includes('run of 1'), { everyMs: 5 });
    expect(outbox.started.filter((run) => run === 'run of 1')).toHaveLength(1);
  });

  it('notes which runs were started, at the latest when it stops; then it claims no more', async () => {
    const outbox = new Outbox();
    const { stop } = outbox.dispatch();
    outbox.add('a', '1', '2');
    await waitFor(() => outbox.started.length === 1, { everyMs: 1 });
    await stop();
    expect(outbox.marked).toEqual(['1', '2']);
    outbox.add('a', '3');
    await rest();
    expect(outbox.started).toHaveLength(1);
  });

  it('goes on at once while there are endpoints that have not had their turn', async () => {
    const outbox = new Outbox();
    outbox.slices = 3;
    outbox.dispatch();
    await waitFor(() => outbox.claims === 4, { everyMs: 5 });
    await rest();
    expect(outbox.claims).toBe(4);
  });

  it('claims again when a run ends only where something may be due by that', async () => {
    const outbox = new Outbox();
    const { attempts } = outbox.dispatch({ pace: { one: 1, busy: 1, failing: 1 } });
    outbox.add('a', '1');
    await waitFor(() => outbox.started.length === 1, { everyMs: 1 });
    await rest();
    const before = outbox.claims;
    attempts('run of 1', 'ended', { delivered: true });
    await rest();
    expect(outbox.claims).toBe(before);
    outbox.add('a', '2');
    await waitFor(() => outbox.started.length === 2, { everyMs: 1 });
    // something came while it was under way, which may be of the same object
    outbox.notice();
    await rest();
    const then = outbox.claims;
    attempts('run of 2', 'ended', { delivered: true });
    await waitFor(() => outbox.claims > then, { everyMs: 1 });
    // what a claim left of an object is due then
    outbox.hasLeft = true;
    outbox.add('a', '2b');
    await waitFor(() => outbox.started.includes('run of 2b'), { everyMs: 1 });
    await rest();
    const left = outbox.claims;
    attempts('run of 2b', 'ended', { delivered: true });
    await waitFor(() => outbox.claims > left, { everyMs: 1 });
    outbox.hasLeft = false;
    // what comes of a failure may be due
    outbox.add('a', '3');
    await waitFor(() => outbox.started.includes('run of 3'), { everyMs: 1 });
    await rest();
    const last = outbox.claims;
    attempts('run of 3', 'ended', { delivered: false });
    await waitFor(() => outbox.claims > last, { everyMs: 1 });
  });

  it('is quiet at rest', async () => {
    const outbox = new Outbox();
    outbox.dispatch();
    await rest();
    const before = outbox.claims;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(outbox.claims).toBe(before);
  });
});
