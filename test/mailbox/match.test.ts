import { describe, expect, it } from '@jest/globals';
import type { MessageMeta } from '../../src/imap/fetch.ts';
import {
  type ArrivedMessage,
  foldersToCheck,
  matchArrivals,
  type MatchFacts,
  matchMessages,
  type MatchRules,
  selectUnknown,
} from '../../src/mailbox/ingest/match.ts';
import type { SentMail } from '../../src/outgoing/sent-mail.ts';
import type { Candidate } from '../../src/mailbox/store/locations.ts';

const arrival = (over: Partial<ArrivedMessage> = {}): ArrivedMessage => ({
  uid: 7,
  identity: 'strong',
  weakIdentity: 'weak',
  serverId: null,
  ...over,
});
const candidate = (over: Partial<Candidate> = {}): Candidate => ({
  folderId: 'fld_a',
  uid: 1,
  emailId: 'email_1',
  date: null,
  identity: 'strong',
  weakIdentity: 'weak',
  serverId: null,
  vanishedAt: null,
  ...over,
});
const gone = new Date();

describe('an arrival is recognised', () => {
  const cases: [string, ArrivedMessage, Candidate[], string][] = [
    ['as new when nothing is like it', arrival(), [], 'new'],
    ['as the email that vanished elsewhere', arrival(), [candidate({ vanishedAt: gone })], 'email_1'],
    ['as a copy of the email that is still elsewhere', arrival(), [candidate()], 'email_1'],
    ['as new beside its equal in the same folder', arrival(), [candidate({ folderId: 'fld_b' })], 'new'],
    [
      'as moved when only INTERNALDATE differs and it vanished',
      arrival({ identity: 'x' }),
      [candidate({ vanishedAt: gone })],
      'email_1',
    ],
    ['as new when INTERNALDATE differs and the other is still there', arrival({ identity: 'x' }), [candidate()], 'new'],
    ['as baseline that vanished elsewhere', arrival(), [candidate({ emailId: null, vanishedAt: gone })], 'baseline'],
    [
      'by the server id alone',
      arrival({ serverId: 's', identity: 'x', weakIdentity: 'y' }),
      [candidate({ serverId: 's' })],
      'email_1',
    ],
    [
      'as new when the server ids differ',
      arrival({ serverId: 's' }),
      [candidate({ serverId: 't', vanishedAt: gone })],
      'new',
    ],
    [
      'as the one that vanished rather than the one that is still there',
      arrival(),
      [candidate({ emailId: 'email_2' }), candidate({ uid: 2, vanishedAt: gone })],
      'email_1',
    ],
  ];
  it.each(cases)('%s', (_, mail, known, expected) => {
    const it = matchMessages('fld_b', [mail], known).get(7);
    expect(it?.kind === 'email' ? it.emailId : it?.kind).toBe(expected);
  });

  it('as new when a program has saved a draft again: same Message-ID, same size', () => {
    const saved = arrival({ identity: 'x' });
    const [here, inTrash] = [candidate({ vanishedAt: gone }), candidate({ folderId: 'fld_b', vanishedAt: gone })];
    expect(matchMessages('fld_a', [saved], [here], true).get(7)?.kind).toBe('new');
    expect(matchMessages('fld_a', [saved], [here]).get(7)?.kind).toBe('email');
    // moved back to Drafts
    expect(matchMessages('fld_a', [saved], [inTrash], true).get(7)?.kind).toBe('email');
    expect(matchMessages('fld_a', [arrival()], [here], true).get(7)?.kind).toBe('email');
  });

  it('each known mail once: of two equal arrivals, one is new', () => {
    const found = matchMessages('fld_b', [arrival(), arrival({ uid: 8 })], [candidate({ vanishedAt: gone })]);
    expect([found.get(7)?.kind, found.get(8)?.kind]).toEqual(['email', 'new']);
  });
});

describe('folders to check before judging', () => {
  it('are those where a look-alike still seems to be', () => {
    const known = [candidate(), candidate({ folderId: 'fld_c', vanishedAt: gone }), candidate({ folderId: 'fld_b' })];
    expect(foldersToCheck('fld_b', [arrival()], known)).toEqual(['fld_a']);
  });
});

describe('arrivals and what this API sent or saved', () => {
  const meta = (over: Partial<MessageMeta> = {}): MessageMeta => ({
    ...{ uid: 7, seen: false, deleted: false, flags: [], size: 100, internalDate: new Date('2024-05-06') },
    ...{ identity: 'strong', weakIdentity: 'weak', serverId: null, serverThreadId: null, messageId: '<m@x>' },
    ...over,
  });
  const send = (over: Partial<SentMail> = {}): SentMail => ({
    ...{ id: 'email_s', messageId: '<m@x>', serverMessageId: null, trackingId: null, sentBy: {} as never, bcc: [] },
    ...{ hasProvisional: false, awaited: true },
    ...over,
  });
  const draft = { id: 'drf_1', messageId: '<m@x>', trackingId: null };
  const facts = (over: Partial<MatchFacts> = {}): MatchFacts => ({
    ...{ located: new Set(), localRevision: 0, candidates: [], sends: [], drafts: [], authservId: null },
    ...over,
  });
  const rules = (over: Partial<MatchRules> = {}): MatchRules => ({
    ...{ folderId: 'fld_b', isDrafts: false, source: 'live', sentCopies: 'never', baseline: null },
    ...over,
  });
  const reported = (given: MatchRules, metas: MessageMeta[], known: MatchFacts) =>
    [...matchArrivals(given, metas, known).values()].map((match) =>
      match.kind !== 'new'
        ? match.kind
        : (match.copyOf?.id ?? match.draft?.id ?? (match.sentByApi ? 'sent by API' : 'new')),
    );

  const later = new Date('2024-05-07');
  const cases: [string, MatchRules, MessageMeta[], MatchFacts, string[]][] = [
    ['stored already is left out', rules(), [meta()], facts({ located: new Set([7]) }), []],
    ['in Sent is the copy', rules({ sentCopies: 'always' }), [meta()], facts({ sends: [send()] }), ['email_s']],
    [
      'in Sent is the copy, though it looks like the draft it was',
      rules({ sentCopies: 'always' }),
      [meta()],
      facts({ sends: [send()], candidates: [candidate({ vanishedAt: gone })] }),
      ['email_s'],
    ],
    [
      'in Sent, of two only the first is the copy',
      rules({ sentCopies: 'always' }),
      [meta(), meta({ uid: 8 })],
      facts({ sends: [send()] }),
      ['email_s', 'sent by API'],
    ],
    [
      'in Sent is no copy once that is stored',
      rules({ sentCopies: 'always' }),
      [meta()],
      facts({ sends: [send({ awaited: false })] }),
      ['sent by API'],
    ],
    [
      'of two sends, the copy is of the first',
      rules({ sentCopies: 'always' }),
      [meta()],
      facts({ sends: [send(), send({ id: 'email_t' })] }),
      ['email_s'],
    ],
    ['elsewhere is a received email', rules(), [meta()], facts({ sends: [send()] }), ['sent by API']],
    [
      'elsewhere in Gmail is the copy when nothing matches it',
      rules({ sentCopies: 'unmatched' }),
      [meta()],
      facts({ sends: [send()] }),
      ['email_s'],
    ],
    [
      'elsewhere in Gmail is what matches it',
      rules({ sentCopies: 'unmatched' }),
      [meta({ serverId: 's' })],
      facts({ sends: [send()], candidates: [candidate({ serverId: 's' })] }),
      ['email'],
    ],
    ['in Drafts is the draft', rules(), [meta()], facts({ drafts: [draft] }), ['drf_1']],
    ['without Message-ID is new', rules(), [meta({ messageId: null })], facts({ sends: [send()] }), ['new']],
    [
      'older than the baseline is baseline',
      rules({ baseline: { date: later, uid: Infinity } }),
      [meta()],
      facts(),
      ['baseline'],
    ],
    [
      'older than the baseline, with a UID from before the connect, is baseline',
      rules({ baseline: { date: later, uid: 8 } }),
      [meta()],
      facts(),
      ['baseline'],
    ],
    [
      'older than the baseline, with a UID from after the connect, is new',
      rules({ baseline: { date: later, uid: 7 } }),
      [meta()],
      facts(),
      ['new'],
    ],
    [
      'older than the baseline and a copy is the copy',
      rules({ baseline: { date: later, uid: Infinity }, sentCopies: 'always' }),
      [meta()],
      facts({ sends: [send()] }),
      ['email_s'],
    ],
    [
      'older than the baseline is no copy in another Gmail folder',
      rules({ baseline: { date: later, uid: Infinity }, sentCopies: 'unmatched' }),
      [meta()],
      facts({ sends: [send()] }),
      ['baseline'],
    ],
  ];
  it.each(cases)('a message %s', (_, given, metas, known, expected) => {
    expect(reported(given, metas, known)).toEqual(expected);
  });

  const fetched: [string, MatchRules, MatchFacts, boolean][] = [
    ['that nothing resembles', rules(), facts(), true],
    ['that is stored', rules(), facts({ located: new Set([7]) }), false],
    ['that is stored, but was appended by this API', rules({ source: 'api' }), facts({ located: new Set([7]) }), true],
    ['that resembles one elsewhere', rules(), facts({ candidates: [candidate()] }), false],
    ['that resembles one in this folder', rules(), facts({ candidates: [candidate({ folderId: 'fld_b' })] }), true],
    [
      'that resembles one that left this folder',
      rules(),
      facts({ candidates: [candidate({ folderId: 'fld_b', vanishedAt: gone })] }),
      false,
    ],
    ['whose copy is awaited', rules(), facts({ candidates: [candidate()], sends: [send()] }), true],
    ['whose draft is awaited', rules(), facts({ candidates: [candidate()], drafts: [draft] }), true],
    ['that is older than the baseline', rules({ baseline: { date: later, uid: Infinity } }), facts(), false],
  ];
  it.each(fetched)('the source of a message %s is fetched before the commit: %#', (_, given, known, expected) => {
    expect(selectUnknown(given, [meta()], known)).toHaveLength(expected ? 1 : 0);
  });
});
