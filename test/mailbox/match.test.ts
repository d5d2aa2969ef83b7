import { describe, expect, it } from '@jest/globals';
import { type ArrivedMessage, foldersToCheck, matchMessages } from '../../src/mailbox/ingest/match.ts';
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

  it('each known mail once: of two equal arrivals, one is new', () => {
    const found = matchMessages('fld_b', [arrival(), arrival({ uid: 8 })], [candidate({ vanishedAt: gone })]);
    expect([found.get(7)?.kind, found.get(8)?.kind]).toEqual(['email', 'new']);
  });
});

describe('folders to check before judging', () => {
  it('are those where a look-alike still seems to lie', () => {
    const known = [candidate(), candidate({ folderId: 'fld_c', vanishedAt: gone }), candidate({ folderId: 'fld_b' })];
    expect(foldersToCheck('fld_b', [arrival()], known)).toEqual(['fld_a']);
  });
});
