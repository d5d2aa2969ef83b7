import { describe, expect, test } from '@jest/globals';
import {
  asksForPatience,
  means,
  refusalCode,
  refusedAs,
  refusedAsLimit,
  refusedAsMissing,
} from '../../src/imap/response-codes.ts';
import { FolderMissing, MailError } from '../../src/mail-wire/mail-error.ts';

const refusal = (code: string | undefined, detail = 'no') =>
  new MailError('provider_error', 'imap', detail, { refused: true, cause: { serverResponseCode: code } });

describe('a refusal', () => {
  test.each([
    ['UNAVAILABLE', 'limit busy retryLater'],
    ['INUSE', 'limit busy retryLater'],
    ['LIMIT', 'limit busy retryLater tooMuch'],
    ['SERVERBUG', 'busy retryLater'],
    ['CONTACTADMIN', 'busy retryLater'],
    ['ALERT', ''],
    ['OVERQUOTA', 'tooMuch'],
    ['TOOBIG', 'tooMuch'],
    ['APPENDLIMIT', 'tooMuch'],
    ['NONEXISTENT', 'missing'],
    ['TRYCREATE', 'missing'],
    ['ALREADYEXISTS', 'exists'],
    ['EXPUNGEISSUED', 'expunged'],
    ['AUTHENTICATIONFAILED', ''],
    ['constructor', ''],
  ])('with %s means: %s', (code, meanings) => {
    const all = ['limit', 'busy', 'retryLater', 'tooMuch', 'missing', 'exists', 'expunged'] as const;
    expect(all.filter((meaning) => means(meaning, code, 'no')).join(' ')).toBe(meanings);
    expect(all.filter((meaning) => refusedAs(meaning, refusal(code))).join(' ')).toBe(
      all.filter((meaning) => means(meaning, code.toUpperCase(), 'no')).join(' '),
    );
  });

  test.each([
    ['busy', undefined, 'Too many simultaneous connections', true],
    ['limit', undefined, 'Maximum number of connections exceeded', true],
    ['limit', 'AUTHENTICATIONFAILED', 'too many connections', true],
    ['busy', undefined, 'Server Unavailable. 15', true],
    ['busy', undefined, 'LOGIN failed. GENERIC_FAILURE_DURING_PROCESSING', true],
    ['busy', undefined, 'Temporary authentication failure.', true],
    ['busy', 'TEMPFAIL', 'no', true],
    ['limit', 'ALERT', 'Too many simultaneous connections. (Failure)', true],
    ['busy', 'ALERT', 'Too many simultaneous connections. (Failure)', true],
    ['busy', 'ALERT', 'Lookup failed (Failure)', true],
    ['busy', 'ALERT', 'Account exceeded command or bandwidth limits. (Failure)', true],
    ['limit', 'ALERT', 'Account exceeded command or bandwidth limits. (Failure)', false],
    ['busy', 'OVERQUOTA', 'Account exceeded command or bandwidth limits. (Failure)', true],
    ['account', 'OVERQUOTA', 'Account exceeded command or bandwidth limits. (Failure)', true],
    ['tooMuch', 'OVERQUOTA', 'Account exceeded command or bandwidth limits. (Failure)', false],
    ['tooMuch', 'ALERT', 'Message too large', true],
    ['busy', undefined, 'LOGIN failed, please try again', false],
    ['busy', 'AUTHENTICATIONFAILED', 'this server is unavailable for you', false],
    ['retryLater', undefined, 'too many connections', false],
    ['tooMuch', undefined, 'Quota exceeded', true],
    ['tooMuch', 'NOPERM', 'Quota exceeded', false],
  ] as const)('means %s with code %s and text "%s": %s', (meaning, code, text, expected) => {
    expect(means(meaning, code, text)).toBe(expected);
  });

  test('has a code only when the server refused', () => {
    expect(refusalCode(refusal('limit'))).toBe('LIMIT');
    expect(refusalCode(new MailError('provider_error', 'imap', 'x', { cause: { serverResponseCode: 'LIMIT' } }))).toBe(
      undefined,
    );
    expect(refusalCode(new Error('x'))).toBe(undefined);
    const section = [{ value: 'copyuid' }, { value: '1' }];
    const cause = { response: { attributes: [{ section }] } };
    expect(refusalCode(new MailError('provider_error', 'imap', 'x', { refused: true, cause }))).toBe('COPYUID');
  });

  test('of a login may come as a BYE with a reason', () => {
    const bye = { cause: { reason: 'Too many connections' } };
    expect(refusedAsLimit(new MailError('provider_error', 'imap', 'connection closed', bye))).toBe(true);
    expect(refusedAsLimit(new MailError('provider_error', 'imap', 'connection closed'))).toBe(false);
  });

  test('as missing includes the result of LIST', () => {
    expect(refusedAsMissing(new FolderMissing())).toBe(true);
    expect(refusedAsMissing(refusal('NONEXISTENT'))).toBe(true);
    expect(refusedAsMissing(refusal('NOPERM'))).toBe(false);
  });
});

test.each([
  ['Request is throttled. Suggested Backoff Time: 3000 milliseconds', true],
  ['Login rate limit exceeded', true],
  ['Too many login attempts', true],
  ['the server could not generate a certificate', false],
  ['migrate this mailbox first', false],
])('that says "%s" asks for fewer logins: %s', (text, expected) => {
  expect(asksForPatience(refusal(undefined, text))).toBe(expected);
});
