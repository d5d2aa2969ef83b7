import { describe, expect, test } from '@jest/globals';
import { judgeAuthentication } from '../../../src/mime/authentication/judge.ts';
import { readAuthenticationFields } from '../../../src/mime/authentication/results.ts';
import { authservIdOf } from '../../../src/mailbox/settings.ts';
import { splitHeader } from '../../../src/mime/read/headers.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';
import { message, read } from '../read-fixture.ts';

/** What is believed of Authentication-Results (RFC 8601), and of whom. */

const RECEIVED = 'Received: from sender.test by mx.provider.test with ESMTPS; Mon, 2 Feb 2026 10:00:00 +0000';
const FROM = 'From: Bank <service@bank.test>';
const PASSES = 'spf=pass smtp.mailfrom=bank.test; dkim=pass header.d=bank.test; dmarc=pass header.from=bank.test';

async function judged(lines: string[], authservId: string | null = null) {
  const { authenticationFields, hasSingleFrom, from } = await read(message(lines));
  return judgeAuthentication(authenticationFields, { address: from.identifier, isSingle: hasSingleFrom }, authservId);
}

/** Header lines that a sender writes: below what the provider adds. 30 of them. */
const FORGED: [what: string, lines: string[]][] = [
  ["the provider's authserv-id", [`Authentication-Results: mx.provider.test; ${PASSES}`]],
  ['a foreign one', [`Authentication-Results: mx.sender.test; ${PASSES}`]],
  ['a name below that of the provider', [`Authentication-Results: a.mx.provider.test; ${PASSES}`]],
  ['the name above that of the provider', [`Authentication-Results: provider.test; ${PASSES}`]],
  ['upper case', [`AUTHENTICATION-RESULTS: MX.PROVIDER.TEST; ${PASSES.toUpperCase()}`]],
  ['a trailing dot', [`Authentication-Results: mx.provider.test.; ${PASSES}`]],
  ['fullwidth characters', [`Authentication-Results: ｍｘ.provider.test; ${PASSES}`]],
  ['Cyrillic characters', [`Authentication-Results: mx.рrovider.test; ${PASSES}`]],
  ['an A-label', [`Authentication-Results: xn--mx-ska.provider.test; ${PASSES}`]],
  ['soft hyphens', [`Authentication-Results: mx.pro\u00advider.test; ${PASSES}`]],
  ['a quoted authserv-id', [`Authentication-Results: "mx.provider.test"; ${PASSES}`]],
  ['escapes in quotes', [`Authentication-Results: "mx\\.provider\\.test"; ${PASSES}`]],
  ['half in quotes', [`Authentication-Results: mx."provider.test"; ${PASSES}`]],
  ['a comment before the authserv-id', [`Authentication-Results: (x) mx.provider.test; ${PASSES}`]],
  ['a comment within', [`Authentication-Results: mx(x).provider.test; ${PASSES}`]],
  ['nested comments', [`Authentication-Results: (a (b) ") mx.provider.test; ${PASSES}`]],
  ['a comment without an end', [`Authentication-Results: mx.provider.test (; ${PASSES}`]],
  ['a quote without an end', [`Authentication-Results: mx.provider.test; spf=pass "; ${PASSES}`]],
  ['version 1', [`Authentication-Results: mx.provider.test 1; ${PASSES}`]],
  ['version 2', [`Authentication-Results: mx.provider.test 2; ${PASSES}`]],
  ['no authserv-id', [`Authentication-Results: ${PASSES}`]],
  ['the name folded away', ['Authentication-Results:', '\tmx.provider.test;', `\t${PASSES}`]],
  ['a folded start', ['Authentication-Results:', ' ', ` mx.provider.test; ${PASSES}`]],
  ['a space before the colon', [`Authentication-Results : mx.provider.test; ${PASSES}`]],
  ['twice', Array(2).fill(`Authentication-Results: mx.provider.test; ${PASSES}`)],
  ['thirty times', Array(30).fill(`Authentication-Results: mx.provider.test; ${PASSES}`)],
  ['above a Received of the provider', [`Authentication-Results: mx.provider.test; ${PASSES}`, RECEIVED]],
  ['ARC', [`ARC-Authentication-Results: i=1; mx.provider.test; ${PASSES}`, 'ARC-Seal: i=1; cv=none']],
  ['encoded words', [`=?utf-8?Q?Authentication-Results?=: mx.provider.test; ${PASSES}`]],
  [
    'an earlier name of the field',
    [`X-Authentication-Results: mx.provider.test; ${PASSES}`, `Authentication-Result: mx.provider.test; ${PASSES}`],
  ],
];

describe.each(FORGED)('forged: %s', (_what, lines) => {
  test('is not believed where the provider adds none', async () => {
    expect(await judged([RECEIVED, ...lines, FROM])).toBeNull();
  });

  test('is not believed beside the result of the provider above its Received', async () => {
    const own = 'Authentication-Results: mx.provider.test; spf=fail; dkim=none; dmarc=fail header.from=bank.test';
    const fails = { spf: 'fail', dkim: 'none', dmarc: 'fail', from_aligned: false };
    expect(await judged([own, RECEIVED, ...lines, FROM])).toEqual(fails);
  });

  test('is not believed below that of a provider whose authserv-id is configured', async () => {
    const own = 'Authentication-Results: mx.provider.test; dmarc=fail header.from=bank.test';
    const fails = { spf: null, dkim: null, dmarc: 'fail', from_aligned: false };
    expect(await judged([RECEIVED, own, ...lines, FROM], 'mx.provider.test')).toEqual(fails);
  });
});

test('there are 30 of them', () => expect(FORGED).toHaveLength(30));

test('without a Received no result is believed: the message was not delivered', async () => {
  expect(await judged([`Authentication-Results: mx.provider.test; ${PASSES}`, FROM])).toBeNull();
  expect(await judged([`Authentication-Results: mx.provider.test; ${PASSES}`, FROM], 'mx.provider.test')).toBeNull();
});

test.each([
  ['imap.gmail.com', null, 'mx.google.com'],
  ['IMAP.GoogleMail.com', null, 'mx.google.com'],
  ['imap.gmail.com', 'MX.Provider.test', 'mx.provider.test'],
  ['imap.gmail.com.x.test', null, null],
])('the authserv-id of %s, with %j configured, is %j', (imapHost, authservId, expected) => {
  expect(authservIdOf({ imapHost, authservId })).toBe(expected);
});

test('a sender who writes another authserv-id is not believed where one is configured', async () => {
  const foreign = `Authentication-Results: mx.sender.test; ${PASSES}`;
  expect(await judged([RECEIVED, foreign, FROM], 'mx.provider.test')).toBeNull();
});

test('a result below one that cannot be read is not believed: that may be the one of the provider', async () => {
  const broken = 'Authentication-Results: mx.provider.test; dmarc=fail (';
  const forged = `Authentication-Results: mx.provider.test; ${PASSES}`;
  expect(await judged([RECEIVED, broken, forged, FROM], 'mx.provider.test')).toBeNull();
});

describe('the result of the provider', () => {
  const ALL = { spf: 'pass', dkim: 'pass', dmarc: 'pass', from_aligned: true };
  test.each<[string, string, object | null]>([
    [
      'as Gmail writes it',
      'mx.google.com; dkim=pass header.i=@bank.test header.s=s1 header.b=aB+/c=; spf=pass (google.com: domain of a@b designates 1.2.3.4 as permitted sender) smtp.mailfrom=a@bank.test; dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=bank.test',
      ALL,
    ],
    [
      'as rspamd writes it',
      'mx; dkim=pass header.d=bank.test header.s=x header.b="a b;c="; dmarc=pass (policy=none) header.from=bank.test; spf=pass (mx: domain of "a;dmarc=fail"@b) smtp.mailfrom="a; dmarc=fail"@bank.test',
      ALL,
    ],
    ['with spaces around =', 'mx 1 ; dmarc = pass header.from=bank.test; spf (c) = (c) pass; dkim/1=pass', ALL],
    ['of nothing', 'mx; none', null],
    ['of another method', 'mx; auth=pass smtp.auth=a', null],
    ['that it does not know', 'mx; dmarc=bestguesspass', { spf: null, dkim: null, dmarc: null, from_aligned: false }],
    [
      'of DMARC for another domain',
      'mx; dmarc=pass header.from=evil.test',
      { spf: null, dkim: null, dmarc: 'pass', from_aligned: false },
    ],
    [
      'with one good signature of two',
      'mx; dkim=fail header.d=x.test; dkim=pass header.d=mail.bank.test',
      { spf: null, dkim: 'pass', dmarc: null, from_aligned: true },
    ],
    [
      'of a signature of another',
      'mx; dkim=pass header.d=evil.test; dmarc=none',
      { spf: null, dkim: 'pass', dmarc: 'none', from_aligned: false },
    ],
    [
      'of SPF alone',
      'mx; spf=pass smtp.mailfrom=bounce@mail.bank.test',
      { spf: 'pass', dkim: null, dmarc: null, from_aligned: true },
    ],
    [
      'of SPF for a HELO',
      'mx; spf=pass smtp.helo=bank.test',
      { spf: 'pass', dkim: null, dmarc: null, from_aligned: false },
    ],
    [
      'of a failed SPF',
      'mx; spf=softfail smtp.mailfrom=bank.test',
      { spf: 'softfail', dkim: null, dmarc: null, from_aligned: false },
    ],
  ])('%s', async (_what, value, expected) => {
    expect(await judged([`Authentication-Results: ${value}`, RECEIVED, FROM])).toEqual(expected);
  });

  test('in several fields of the same authserv-id is joined', async () => {
    const fields = ['spf=pass', 'dkim=none', 'dmarc=pass'].map((one) => `Authentication-Results: mx; ${one}`);
    const other = 'Authentication-Results: filter; spf=fail';
    expect(await judged([...fields, other, RECEIVED, FROM])).toEqual({ ...ALL, dkim: 'none' });
  });

  test.each([
    ['a public suffix in common', 'From: a@one.co.uk', 'header.d=two.co.uk'],
    ['a shared hosting domain in common', 'From: a@one.github.io', 'header.d=two.github.io'],
    ['two addresses in From', 'From: a@bank.test, b@evil.test', 'header.d=bank.test'],
    ['two From fields', `${FROM}\r\n${FROM}`, 'header.d=bank.test'],
    ['no From', 'Subject: x', 'header.d=bank.test'],
  ])('does not align with %s', async (_what, from, property) => {
    expect(await judged([`Authentication-Results: mx; dkim=pass ${property}`, RECEIVED, from])).toMatchObject({
      dkim: 'pass',
      from_aligned: false,
    });
  });

  test('aligns in either form of an international domain', async () => {
    const own = 'Authentication-Results: mx; dmarc=pass header.from=xn--bcher-kva.test';
    expect(await judged([own, RECEIVED, 'From: a@bücher.test'])).toMatchObject({ from_aligned: true });
  });

  test('with a configured authserv-id may be in several fields above all Received fields', async () => {
    const fields = ['spf=pass', 'dkim=none', 'dmarc=pass'].map((one) => `Authentication-Results: mx; ${one}`);
    const other = 'Authentication-Results: filter; spf=fail';
    const forged = `Authentication-Results: mx; ${PASSES}`;
    expect(await judged([other, ...fields, RECEIVED, forged, FROM], 'mx')).toEqual({ ...ALL, dkim: 'none' });
  });

  test('may be in several fields below the Received of a delivery by LMTP', async () => {
    const delivered = 'Received: from mx by mx\r\n\twith LMTP\r\n\tid 1; Mon, 2 Feb 2026 10:00:00 +0000';
    const fields = ['dmarc=fail', 'dkim=pass header.d=bank.test'].map((one) => `Authentication-Results: mx; ${one}`);
    const forged = `Authentication-Results: mx; ${PASSES}`;
    const both = { spf: null, dkim: 'pass', dmarc: 'fail', from_aligned: false };
    expect(await judged([delivered, ...fields, RECEIVED, forged, FROM], 'mx')).toEqual(both);
    expect(await judged([delivered, RECEIVED, fields[0] ?? '', forged, FROM], 'mx')).toEqual({ ...both, dkim: null });
    expect(await judged([fields[0] ?? '', delivered, forged, FROM], 'mx')).toEqual({ ...both, dkim: null });
    expect(await judged([delivered, ...fields, RECEIVED, FROM])).toBeNull();
  });

  test('with a configured authserv-id may be below Received fields of the provider', async () => {
    const own = `Authentication-Results: MX.Provider.test; ${PASSES}`;
    expect(await judged([RECEIVED, own, RECEIVED, FROM])).toBeNull();
    expect(await judged([RECEIVED, own, RECEIVED, FROM], 'mx.provider.test')).toEqual(ALL);
  });
});

test('hostile fields cost linear time', () =>
  expectCpuBelow(2_000, () =>
    ['(', '"', ';', '\\', ' = ', 'a=', '( ', '()', '"" '].map((piece) =>
      readAuthenticationFields(
        splitHeader(`Received: x\r\n${`Authentication-Results: ${piece.repeat(100_000)}\r\n`.repeat(20)}`),
      ),
    ),
  ));
