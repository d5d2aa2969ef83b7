import { beforeEach, describe, expect, it } from '@jest/globals';
import { LINES } from '../../../src/db/outbox.ts';
import type { ClaimedDelivery } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import type { DueLine } from '../../../src/webhooks/dispatch/due-lines.ts';
import { type RunEnd, Turns } from '../../../src/webhooks/dispatch/turns.ts';

let now: number;
let turns: Turns;
beforeEach(() => {
  now = 1_000;
  turns = new Turns(() => now);
});

const well = (endpointId: string, more: Partial<DueLine> = {}): DueLine => ({
  endpointId,
  line: LINES.live,
  isFailing: false,
  isProbe: false,
  ...more,
});
const poor = (endpointId: string) => well(endpointId, { isFailing: true });
const chosen = (...lines: DueLine[]) => turns.choose(lines).turns.map(({ endpointId }) => endpointId);
/** Gives a line a run. */
function run(line: DueLine, workflowId: string, hasMore = true): void {
  const [turn] = turns.choose([line]).turns;
  turns.took({
    turn: turn ?? { ...line, isPoor: line.isFailing, most: 1, alone: 1 },
    runs: [],
    hasMore,
  });
  turns.began(workflowId, { line, isPoor: turn?.isPoor ?? line.isFailing });
}

describe('a line', () => {
  it('has four runs at a time when it is alone', () => {
    for (const id of ['1', '2', '3', '4']) {
      expect(chosen(well('a'))).toEqual(['a']);
      run(well('a'), id);
    }
    expect(chosen(well('a'))).toEqual([]);
    turns.ended('2');
    expect(chosen(well('a'))).toEqual(['a']);
  });

  it('has its share of the places, one at least', () => {
    const others = Array.from({ length: 7 }, (_, n) => well(`other ${n}`));
    for (const id of ['1', '2']) run(well('a'), id);
    expect(chosen(well('a'), ...others)).not.toContain('a');
    turns.ended('1');
    expect(chosen(well('a'), ...others)).toContain('a');
    const many = Array.from({ length: 12 }, (_, n) => well(`other ${n}`));
    expect(chosen(...many)).toHaveLength(12);
  });

  it('gathers deliveries for longer, into one run, while more than eight of them come in a second', () => {
    const take = (count: number) =>
      turns.took({
        turn: { ...well('a'), isPoor: false, most: 100, alone: 4 },
        runs: [{ workflowId: 'w', deliveries: Array.from({ length: count }, () => ({}) as ClaimedDelivery) }],
        hasMore: false,
      });
    const next = () => turns.choose([well('a')]);
    const each = (ms: number, times: number, count: number) => {
      for (let n = 0; n < times; n++) {
        now += ms;
        take(count);
      }
    };
    each(200, 50, 1);
    expect(next().againInMs).toBe(20);
    each(50, 10, 1);
    expect(next().againInMs).toBe(250);
    each(250, 50, 3);
    expect(next().againInMs).toBe(250);
    now += 250;
    expect(next().turns.map(({ alone }) => alone)).toEqual([1]);
    now += 500;
    expect(next().turns.map(({ alone }) => alone)).toEqual([4]);
    take(1);
    expect(next().againInMs).toBe(20);
  });

  it('of a replay, or of manual retries, has one run at a time, and takes none of the live one', () => {
    const replay = well('a', { line: LINES.replay });
    run(replay, '1');
    expect(turns.choose([replay, well('a')]).turns.map(({ line }) => line)).toEqual([LINES.live]);
  });

  it('has no further run while one waits for its endpoint, which takes no place of others', () => {
    for (let n = 0; n < 200; n++) {
      run(well(`slow ${n}`), `run ${n}`);
      now += 20;
    }
    now += 300;
    expect(chosen(well('slow 3'), well('fast'))).toEqual(['fast']);
    turns.ended('run 3');
    expect(chosen(well('slow 3'))).toEqual(['slow 3']);
  });

  it('waits briefly after a turn that left nothing, so that deliveries gather', () => {
    run(well('a'), '1', false);
    const { turns: none, againInMs = 0 } = turns.choose([well('a')]);
    expect(none).toEqual([]);
    expect(againInMs).toBeLessThan(50);
    now += againInMs;
    expect(chosen(well('a'))).toEqual(['a']);
  });

  it('does not count a run without news', () => {
    for (const id of ['1', '2', '3', '4']) run(well('a'), id);
    now += 30_000;
    turns.renew('1');
    now += 20_000;
    expect(chosen(well('a'))).toEqual([]);
    expect(['1', '2', '3', '4'].filter((id) => turns.isUnderWay(id))).toEqual(['1']);
  });

  it('has one delivery in its turn when it is a probe', () => {
    expect(turns.choose([well('a', { isProbe: true, isFailing: true })]).turns).toMatchObject([{ most: 1 }]);
  });
});

describe('all lines', () => {
  it('have 16 places, of which those that wait for their endpoint take none', () => {
    const lines = Array.from({ length: 20 }, (_, n) => well(`endpoint ${n}`));
    expect(turns.choose(lines).turns).toHaveLength(16);
    for (const line of lines.slice(0, 16)) run(line, line.endpointId);
    expect(chosen(...lines.slice(16))).toEqual([]);
    now += 300;
    expect(chosen(...lines.slice(16))).toHaveLength(4);
  });
});

describe('poor lines', () => {
  it('have two of the places, and one run each', () => {
    const lines = Array.from({ length: 10 }, (_, n) => poor(`bad ${n}`));
    expect(chosen(...lines, well('good'))).toEqual(['bad 0', 'bad 1', 'good']);
  });

  it('have a turn a second, and four a second together', () => {
    const lines = Array.from({ length: 20 }, (_, n) => poor(`bad ${n}`));
    let made = 0;
    for (; now < 61_000; now += 10) {
      for (const { endpointId } of turns.choose(lines).turns) {
        run(poor(endpointId), `${endpointId} ${now}`, true);
        turns.ended(`${endpointId} ${now}`);
        made += 1;
      }
    }
    // the first minute begins with one for each
    expect(made).toBeGreaterThan(200);
    expect(made).toBeLessThan(300);
  });

  it('are treated like others as soon as something is delivered', () => {
    run(poor('back'), '1');
    expect(chosen(poor('back'))).toEqual([]);
    turns.ended('1');
    expect(chosen(well('back'))).toEqual(['back']);
  });

  it('are also those of an endpoint that sends long responses, for a minute', () => {
    run(well('long'), '1');
    turns.ended('1', { isCostly: true });
    run(well('long'), '2');
    expect(chosen(well('long'))).toEqual([]);
    turns.ended('2');
    now += 60_000;
    expect(chosen(well('long'))).toEqual(['long']);
    run(well('long'), '3');
    expect(chosen(well('long'))).toEqual(['long']);
  });
});

interface Endpoint {
  line: DueLine;
  /** ms that its runs take, of which the machine is busy with the first 20 */
  takesMs: number;
  end: RunEnd;
}

/** Ten events a second to each endpoint, on a machine that does 20 ms of each run at a time on one core; ms that those of the first waited. */
function simulate(endpoints: readonly Endpoint[], seconds: number): number[] {
  const waiting = endpoints.map((): number[] => []);
  const running: { id: string; of: number; events: number[]; endsAt: number }[] = [];
  const waited: number[] = [];
  const began = now;
  let busyUntil = now;
  for (; now < began + seconds * 1_000; now += 5) {
    for (const [n, list] of waiting.entries()) if ((now + n * 7) % 100 < 5) list.push(now);
    for (const ended of running.filter(({ endsAt }) => endsAt <= now)) {
      running.splice(running.indexOf(ended), 1);
      turns.ended(ended.id, endpoints[ended.of]?.end);
      if (ended.of === 0) waited.push(...ended.events.map((at) => ended.endsAt - at));
    }
    const due = endpoints.flatMap(({ line }, n) => (waiting[n]?.length ? [line] : []));
    for (const turn of turns.choose(due).turns) {
      const of = endpoints.findIndex(({ line }) => line.endpointId === turn.endpointId);
      const events = waiting[of]?.splice(0, turn.most) ?? [];
      const id = `${of} ${now}`;
      turns.took({ turn, runs: [], hasMore: (waiting[of]?.length ?? 0) > 0 });
      turns.began(id, { line: turn, isPoor: turn.isPoor });
      busyUntil = Math.max(busyUntil, now) + 20;
      running.push({ id, of, events, endsAt: busyUntil + (endpoints[of]?.takesMs ?? 0) });
    }
  }
  return waited.toSorted((a, b) => a - b);
}

describe('a healthy endpoint, simulated', () => {
  const good: Endpoint = { line: well('good'), takesMs: 2, end: {} };
  const kinds: Endpoint[] = [
    { line: poor('500'), takesMs: 2, end: {} },
    { line: poor('hangs'), takesMs: 30_000, end: {} },
    { line: well('slow'), takesMs: 25_000, end: {} },
    { line: well('long'), takesMs: 100, end: { isCostly: true } },
    { line: poor('slow 503'), takesMs: 5_000, end: {} },
  ];
  const beside = (count: number): Endpoint[] => [
    good,
    ...Array.from({ length: count }, (_, n) => {
      const kind = kinds[n % kinds.length] as Endpoint;
      return { ...kind, line: { ...kind.line, endpointId: `${kind.line.endpointId} ${n}` } };
    }),
  ];
  const at = (times: number[], share: number) => times[Math.floor(times.length * share)] ?? Number.NaN;

  it.each([3, 8, 45])('waits little longer beside %i that hang, fail or send long responses', (count) => {
    const alone = simulate(beside(0), 60);
    turns = new Turns(() => now);
    const times = simulate(beside(count), 60);
    expect(times.length).toBeGreaterThan(550);
    expect(at(times, 0.5)).toBeLessThan(at(alone, 0.5) + 40);
    expect(at(times, 0.99)).toBeLessThan(500);
  });

  it('waits no longer than its share beside 30 healthy ones', () => {
    const times = simulate(
      [good, ...Array.from({ length: 30 }, (_, n) => ({ ...good, line: well(`other ${n}`) }))],
      30,
    );
    // 31 runs of 20 ms each in turn
    expect(at(times, 0.99)).toBeLessThan(1_500);
  });
});
