import { describe, expect, test } from '@jest/globals';
import {
  baseSubjectOf,
  decideThread,
  participantsOf,
  type SubjectCandidate,
  subjectNeighbours,
  type ThreadFacts,
  threadKeysOf,
} from '../../src/mime/threads.ts';

const DAY = 24 * 3600 * 1000;

interface Sketch {
  id?: string;
  refs?: string[];
  replyTo?: string;
  subject?: string;
  day?: number;
  who?: string[];
  server?: string;
}

function factsOf({ id, refs = [], replyTo, subject = '', day = 0, who = ['ann@x.y'], server }: Sketch): ThreadFacts {
  const { base, isReply } = baseSubjectOf(subject);
  return {
    serverThreadId: server ?? null,
    messageId: id ? `<${id}@x>` : null,
    inReplyTo: replyTo ? [`<${replyTo}@x>`] : [],
    references: refs.map((ref) => `<${ref}@x>`),
    baseSubject: base,
    isReplySubject: isReply,
    date: new Date(Date.UTC(2024, 0, 1) + day * DAY),
    participants: who,
  };
}

/** A store in memory that takes mails in one by one, as the sync does; gives the thread of each. */
function thread(sketches: Sketch[]): string[] {
  const keys = new Map<string, string>();
  const mails: (SubjectCandidate & { subjectKey: string | null })[] = [];
  let made = 0;
  for (const sketch of sketches) {
    const facts = factsOf(sketch);
    const own = threadKeysOf(facts);
    const found = mails.filter((mail) => mail.subjectKey !== null && own.subjectLookups.includes(mail.subjectKey));
    const decision = decideThread(own.keys, keys, subjectNeighbours(facts, found));
    const threadId = decision.threadId ?? `thr_${String(made++).padStart(4, '0')}`;
    for (const mail of mails) if (decision.merge.includes(mail.threadId)) mail.threadId = threadId;
    for (const [key, id] of keys) if (decision.merge.includes(id)) keys.set(key, threadId);
    for (const key of decision.keysToPoint) keys.set(key, threadId);
    mails.push({ subjectKey: own.subjectKey, threadId, date: facts.date, participants: facts.participants });
  }
  return mails.map((mail) => mail.threadId);
}

function permutations<T>(items: T[]): T[][] {
  return items.length < 2
    ? [items]
    : items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}

/** Which mails share a thread, as a text that does not depend on the order or on the ids. */
function partition(sketches: Sketch[], names: Sketch[]): string {
  const threads = thread(sketches);
  const groups = new Map<string, number[]>();
  sketches.forEach((sketch, i) => {
    groups.set(threads[i] as string, [...(groups.get(threads[i] as string) ?? []), names.indexOf(sketch)]);
  });
  return [...groups.values()]
    .map((group) => group.sort().join(','))
    .sort()
    .join(' ');
}

describe('mails share a thread', () => {
  test.each<[string, Sketch[], string]>([
    ['reply and original', [{ id: 'a' }, { id: 'b', replyTo: 'a' }], '0,1'],
    [
      'two replies to a mail that is missing',
      [
        { id: 'b', replyTo: 'a' },
        { id: 'c', replyTo: 'a' },
      ],
      '0,1',
    ],
    ['a chain with a gap', [{ id: 'a' }, { id: 'c', refs: ['a', 'b'] }, { id: 'd', refs: ['b'] }], '0,1,2'],
    [
      'a late parent joins two threads',
      [
        { id: 'b', replyTo: 'a' },
        { id: 'd', replyTo: 'c' },
        { id: 'a', refs: ['c'] },
      ],
      '0,1,2',
    ],
    [
      'a mail that names two conversations joins them',
      [{ id: 'a' }, { id: 'b' }, { id: 'c', replyTo: 'b' }, { id: 'd', refs: ['a', 'b'] }],
      '0,1,2,3',
    ],
    ['unmatched mails stay apart', [{ id: 'a', subject: 'Hi' }, { id: 'b', subject: 'Hi' }, {}, {}], '0 1 2 3'],
    [
      'the server says so',
      [
        { id: 'a', server: 'gm:1' },
        { id: 'b', server: 'gm:1' },
        { id: 'c', server: 'gm:2', replyTo: 'a' },
      ],
      '0,1 2',
    ],
    [
      'a reply by subject alone',
      [
        { id: 'a', subject: 'Lunch' },
        { id: 'b', subject: 'Re: Lunch', day: 3 },
      ],
      '0,1',
    ],
    [
      'two replies by subject alone',
      [
        { id: 'a', subject: 'Re: Lunch' },
        { id: 'b', subject: 'AW: lunch', day: 7 },
      ],
      '0,1',
    ],
    [
      'not after more than 7 days',
      [
        { id: 'a', subject: 'Lunch' },
        { id: 'b', subject: 'Re: Lunch', day: 7.1 },
      ],
      '0 1',
    ],
    [
      'not without a shared participant',
      [
        { id: 'a', subject: 'Lunch' },
        { id: 'b', subject: 'Re: Lunch', who: ['bo@x.y'] },
      ],
      '0 1',
    ],
    [
      'not by subject when there are references',
      [
        { id: 'a', subject: 'Lunch' },
        { id: 'b', subject: 'Re: Lunch', replyTo: 'z' },
      ],
      '0 1',
    ],
    [
      'not by subject when it is passed on',
      [
        { id: 'a', subject: 'Lunch' },
        { id: 'b', subject: 'Fwd: Lunch' },
      ],
      '0 1',
    ],
    [
      'not by an empty subject',
      [
        { id: 'a', subject: '' },
        { id: 'b', subject: 'Re:' },
      ],
      '0 1',
    ],
    [
      'a reply by subject joins a mail with references',
      [{ id: 'a' }, { id: 'b', replyTo: 'a', subject: 'Re: Lunch', day: 1 }, { id: 'c', subject: 'Re: Lunch', day: 2 }],
      '0,1,2',
    ],
    [
      'all relations together',
      [
        { id: 'a', subject: 'Plan' },
        { id: 'b', subject: 'Re: Plan', refs: ['a'], day: 1 },
        { id: 'c', subject: 'Re: Plan', day: 2 },
        { id: 'd', replyTo: 'c', day: 30 },
        { id: 'e', subject: 'Plan', who: ['eve@x.y'] },
      ],
      '0,1,2,3 4',
    ],
  ])('%s, in any order', (_, sketches, expected) => {
    for (const order of permutations(sketches)) expect(partition(order, sketches)).toBe(expected);
  });

  test('random conversations, in any order', () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    for (let round = 0; round < 40; round++) {
      const sketches = Array.from(
        { length: 6 },
        (_, i): Sketch => ({
          id: `m${i}`,
          refs: random(3) === 0 ? [`m${random(8)}`, `m${random(8)}`] : [],
          subject: ['Lunch', 'Re: Lunch', 'Fwd: Lunch', 'Plan', 'Re: Plan', ''][random(6)] as string,
          day: random(12),
          who: [['ann@x.y'], ['bo@x.y'], ['ann@x.y', 'bo@x.y']][random(3)] as string[],
        }),
      );
      expect(new Set(permutations(sketches).map((order) => partition(order, sketches))).size).toBe(1);
    }
  });
});

describe('a decision', () => {
  test('keeps the older of two threads and returns the keys to point at it', () => {
    const existing = new Map([
      ['mid:a', 'thr_02'],
      ['mid:b', 'thr_01'],
    ]);
    expect(decideThread(['mid:c', 'mid:a', 'mid:b'], existing, ['thr_03', 'thr_01'])).toEqual({
      threadId: 'thr_01',
      merge: ['thr_02', 'thr_03'],
      keysToPoint: ['mid:c', 'mid:a'],
    });
  });

  test('for a mail without matching keys is a new thread', () => {
    expect(decideThread(['mid:c'], new Map())).toEqual({ threadId: null, merge: [], keysToPoint: ['mid:c'] });
    expect(decideThread([], new Map())).toEqual({ threadId: null, merge: [], keysToPoint: [] });
  });
});

describe('an invalid id', () => {
  const keysOf = (messageId: string, references: string[] = []) =>
    threadKeysOf({ ...factsOf({}), messageId, references }).keys;

  test.each(['<test>', '<1>', '<>', '<message-id>', '<a b@c>'])('%s joins nothing', (id) => {
    expect(keysOf(id)).toEqual([]);
    expect(keysOf('<a@x>', [id])).toEqual(['mid:a@x']);
  });

  test('joins mails if it is too long to be shared by chance', () => {
    const id = '<20240506070809.4F3A2B1C00>';
    expect(keysOf('<a@x>', [id])).toContain(keysOf(id)[0]);
  });
});

describe('keys', () => {
  test('are bounded in length and number', () => {
    const { keys } = threadKeysOf(
      factsOf({ id: 'x'.repeat(5000), refs: Array.from({ length: 5000 }, (_, i) => `r${i}`) }),
    );
    expect(keys.length).toBe(201);
    expect(keys).toEqual(expect.arrayContaining(['mid:r0@x', 'mid:r4999@x']));
    expect(Math.max(...keys.map((key) => key.length))).toBeLessThanOrEqual(200);
    const [server] = threadKeysOf(factsOf({ server: `oid:${'y'.repeat(500)}` })).keys;
    expect(server).toMatch(/^oid:#[\w-]{22}$/);
  });

  test('participants exclude the owner, unless alone', () => {
    const who = (identifier: string) => ({ identifier });
    const mail = { from: who('Ann@X.y'), to: [who('me@x.y'), who('BO@x.y')], cc: [who('bo@x.y'), who('')] };
    expect(participantsOf(mail, ['ME@x.y'])).toEqual(['ann@x.y', 'bo@x.y']);
    expect(participantsOf({ from: who('me@x.y'), to: [who('me@x.y')], cc: [] }, ['me@x.y'])).toEqual(['me@x.y']);
  });
});
