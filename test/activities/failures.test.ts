import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { DrizzleQueryError } from 'drizzle-orm';
import { toFailure, withFailures } from '../../src/activities/failures.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { LeaseLost } from '../../src/db/coordination/lease.ts';
import { CredentialsUnreadable } from '../../src/mailbox/settings.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { PartUnavailable } from '../../src/outage.ts';

const canary = 'canary@example.com';
const coded = (code: string) => Object.assign(new Error(canary), { code });
const wrapped = (code: string) => new DrizzleQueryError(`insert ${canary}`, [canary], coded(code));

describe('toFailure', () => {
  it.each<[string, unknown, string, boolean]>([
    ['a refused login', new MailError('invalid_credentials', 'imap', 'refused'), 'invalid_credentials', false],
    ['a refused mail', new MailError('provider_rejected', 'smtp', 'too large'), 'provider_rejected', false],
    ['an unreachable server', new MailError('provider_error', 'imap', 'timed out'), 'provider_error', true],
    ['credentials under another key', new CredentialsUnreadable('cannot be opened'), 'provider_error', false],
    ['a wrong parameter', new ApiError('invalid_parameters', 'which'), 'invalid_parameters', false],
    ['an unknown account', new ApiError('not_found', 'no account'), 'not_found', false],
    ['a lost lease', new LeaseLost('acc_1'), 'lease_lost', false],
    ['a database that shuts down', wrapped('57P01'), 'unavailable', true],
    ['a database that is not there', wrapped('ECONNREFUSED'), 'unavailable', true],
    ['a deadlock', wrapped('40P01'), 'unavailable', true],
    ['a database that became a standby, or whose disk is full', wrapped('25006'), 'unavailable', true],
    ['a pool without a connection', new Error('timeout exceeded when trying to connect'), 'unavailable', true],
    ['a full storage', new PartUnavailable('storage', { full: true }), 'storage_full', true],
    ['a full disk', coded('ENOSPC'), 'storage_full', true],
    ['a broken constraint', wrapped('23505'), 'unexpected_error', true],
    ['a bug', new TypeError(canary), 'unexpected_error', true],
    ['something thrown that is no error', canary, 'unexpected_error', true],
  ])('%s', (_what, error, type, retryable) => {
    const failure = toFailure(error) as ApplicationFailure;
    expect([failure.type, failure.nonRetryable]).toEqual([type, !retryable]);
    expect(failure.details).toEqual([expect.objectContaining({ code: type, detail: expect.any(String) })]);
    expect(`${failure.message} ${JSON.stringify(failure.details)} ${failure.stack} ${failure.cause}`).not.toContain(
      canary,
    );
  });

  it('includes the side of the mailbox and the details of the activity', () => {
    const error = new MailError('provider_error', 'smtp', 'timed out');
    const failure = toFailure(error, { connected: true, watchEpoch: 3 }) as ApplicationFailure;
    expect(failure.details).toEqual([
      { code: 'provider_error', detail: 'timed out', side: 'smtp', connected: true, watchEpoch: 3 },
    ]);
  });

  it.each([ApplicationFailure.nonRetryable('x', 'y'), new CancelledFailure('x')])('passes %s through', (error) => {
    expect(toFailure(error)).toBe(error);
  });
});

it('wraps every activity', async () => {
  const { works, fails } = withFailures({
    works: async (input: number) => input + 1,
    fails: async () => {
      throw new ApiError('not_found', 'nothing there');
    },
  });
  expect(await works(1)).toBe(2);
  await expect(fails()).rejects.toMatchObject({ name: 'ApplicationFailure', type: 'not_found' });
});
