import { describe, expect, it } from '@jest/globals';
import {
  baseSubjectOf,
  decideThread,
  subjectNeighbours,
  type ThreadFacts,
  threadKeysOf,
} from '../../src/mime/threads.ts';

/*
 * The cases of RFC 5256: base subjects (2.1) and threads by references (3), each for every order of arrival. Two ask for
 * what is not offered, since it would join mails of people who never wrote to each other: see the end.
 */

describe('base subject (RFC 5256 2.1)', () => {
  it.each([
    ['(1) encoded words are decoded before, white space is one blank', 'a \t  b', 'a b'],
    ['(2) a trailer', 'a (fwd)', 'a'],
    ['(2) several trailers', 'a (fwd) (FWD) ', 'a'],
    ['(3) re', 'Re: a', 'a'],
    ['(3) re in any case', 'rE: a', 'a'],
    ['(3) re with white space before the colon', 'Re : a', 'a'],
    ['(3) re with a blob', 'Re [list]: a', 'a'],
    ['(3) fw', 'Fw: a', 'a'],
    ['(3) fwd', 'FWD: a', 'a'],
    ['(3) a blob before re', '[list] Re: a', 'a'],
    ['(4) a blob', '[list] a', 'a'],
    ['(4) not a blob when nothing would be left', '[list]', '[list]'],
    ['(5) several leaders and blobs', 'Re: [list] Fwd: [list] re: a', 'a'],
    ['(6) fwd in brackets', '[Fwd: a]', 'a'],
    ['(6) fwd in brackets around leaders and a trailer', '[fwd: Re: a (fwd)]', 'a'],
    ['no leader without a colon', 'Re a', 'Re a'],
    ['no leader within a word', 'Regarding: a', 'Regarding: a'],
    ['no trailer in the middle', 'a (fwd) b', 'a (fwd) b'],
    ['nothing but leaders', 'Re: Fwd:', ''],
  ])('%s', (_, subject, base) => {
    expect(baseSubjectOf(subject).base).toBe(base);
  });
});

interface Sketch {
  id?: string;
  refs?: string;
  replyTo?: string;
  subject?: string;
  day?: number;
}

function factsOf({ id, refs = '', replyTo = '', subject = '', day = 0 }: Sketch): ThreadFacts {
  const { base, isReply } = baseSubjectOf(subject);
  const idsOf = (text: string) => text.split(' ').filter((each) => each !== '');
  return {
    messageId: id ?? null,
    inReplyTo: idsOf(replyTo),
    references: idsOf(refs),
    baseSubject: base,
    isReplySubject: isReply,
    date: new Date(Date.UTC(2024, 0, 1 + day)),
    participants: ['ann@x.test'],
  };
}

/** Which mails share a thread when they come in that order. */
function groups(sketches: Sketch[], order: number[]): string {
  const keys = new Map<string, string>();
  const mails: {
    index: number;
    threadId: string;
    subjectKey: string | null;
    date: Date;
    participants: readonly string[];
  }[] = [];
  for (const index of order) {
    const facts = factsOf(sketches[index] as Sketch);
    const own = threadKeysOf(facts);
    const found = mails.filter(({ subjectKey }) => subjectKey !== null && own.subjectLookups.includes(subjectKey));
    const { threadId, merge, keysToPoint } = decideThread(own.keys, keys, subjectNeighbours(facts, found));
    const joined = threadId ?? `thr_${mails.length}`;
    for (const mail of mails) if (merge.includes(mail.threadId)) mail.threadId = joined;
    for (const [key, id] of keys) if (merge.includes(id)) keys.set(key, joined);
    for (const key of keysToPoint) keys.set(key, joined);
    mails.push({
      index,
      threadId: joined,
      subjectKey: own.subjectKey,
      date: facts.date,
      participants: facts.participants,
    });
  }
  const byThread = new Map<string, number[]>();
  for (const { index, threadId } of mails) byThread.set(threadId, [...(byThread.get(threadId) ?? []), index].sort());
  return [...byThread.values()]
    .map((group) => group.join(','))
    .sort()
    .join(' ');
}

function orders(count: number): number[][] {
  if (count === 0) return [[]];
  return orders(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, at) => rest.toSpliced(at, 0, count - 1)),
  );
}

const [A, B, C, D] = ['<a@x>', '<b@x>', '<c@x>', '<d@x>'];

describe('threads by references (RFC 5256 3), in any order of arrival', () => {
  it.each<[string, Sketch[], string]>([
    ['(1) References link a chain', [{ id: A }, { id: B, refs: A }, { id: C, refs: `${A} ${B}` }], '0,1,2'],
    ['(1) the parent may be missing', [{ id: A }, { id: C, refs: `${A} ${B}` }, { id: D, refs: `${A} ${B}` }], '0,1,2'],
    [
      '(1) siblings of a missing parent',
      [
        { id: C, refs: B },
        { id: D, refs: B },
      ],
      '0,1',
    ],
    ['(1) In-Reply-To counts without References', [{ id: A }, { id: B, replyTo: A }], '0,1'],
    [
      '(1) In-Reply-To does not count beside References',
      [{ id: A }, { id: B }, { id: C, refs: A, replyTo: B }],
      '0,2 1',
    ],
    ['(1) References without a valid id: In-Reply-To counts', [{ id: A }, { id: B, refs: 'junk', replyTo: A }], '0,1'],
    ['(1) a quoted left part is the same id', [{ id: '<"a"@x>' }, { id: B, refs: A }], '0,1'],
    ['(1) ids differ by case', [{ id: '<A@x>' }, { id: B, refs: A }], '0 1'],
    [
      '(1) a loop',
      [
        { id: A, refs: B },
        { id: B, refs: A },
      ],
      '0,1',
    ],
    ['(1) a mail that names itself', [{ id: A, refs: A }, { id: B }], '0 1'],
    ['(1) mails without an id are apart', [{}, {}], '0 1'],
    [
      '(5) a reply without references joins by subject',
      [
        { id: A, subject: 'a' },
        { id: B, subject: 'Re: a' },
      ],
      '0,1',
    ],
    [
      '(5) two replies without references',
      [
        { id: A, subject: 'Re: a' },
        { id: B, subject: 're: A' },
      ],
      '0,1',
    ],
    [
      '(5) an empty base subject joins nothing',
      [
        { id: A, subject: 'Re:' },
        { id: B, subject: '' },
      ],
      '0 1',
    ],
    [
      '(5) a reply with an invalid reference joins by subject',
      [
        { id: A, subject: 'a' },
        { id: B, subject: 'Re: a', refs: 'junk' },
      ],
      '0,1',
    ],
    [
      '(5) other subjects are apart',
      [
        { id: A, subject: 'a' },
        { id: B, subject: 'Re: b' },
      ],
      '0 1',
    ],
  ])('%s', (_, sketches, expected) => {
    for (const order of orders(sketches.length)) expect(groups(sketches, order)).toBe(expected);
  });

  /** Threads by subject alone, of all senders and times: a newsletter, invoices or reminders would be one thread. */
  it.each<[string, Sketch[], string]>([
    [
      '(5) two mails of one subject, of which none is a reply, are apart here',
      [
        { id: A, subject: 'a' },
        { id: B, subject: 'a' },
      ],
      '0 1',
    ],
    [
      '(5) a reply by subject after more than a week is apart here',
      [
        { id: A, subject: 'a' },
        { id: B, subject: 'Re: a', day: 8 },
      ],
      '0 1',
    ],
  ])('%s', (_, sketches, expected) => {
    for (const order of orders(sketches.length)) expect(groups(sketches, order)).toBe(expected);
  });
});
