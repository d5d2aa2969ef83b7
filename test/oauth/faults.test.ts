import { describe, expect, it } from '@jest/globals';
import { judge, type TokenFailure } from '../../src/oauth/faults.ts';

/** The words of the providers; user names and ids in them are made up. */

const microsoft = (number: number, text: string, error = 'invalid_grant'): TokenFailure => ({
  status: error === 'invalid_client' ? 401 : 400,
  error,
  description:
    `AADSTS${number}: ${text} Trace ID: 0d1fbd64-5a5c-4e30-8a4b-8a8b5e2a4f00 ` +
    'Correlation ID: 3c1f1c8e-6f1e-4a3b-9d52-5f0c1f0a1b00 Timestamp: 2026-11-25 09:00:00Z',
});

describe('the owner', () => {
  it.each<[string, TokenFailure, RegExp]>([
    [
      'did not use the sign-in for long',
      microsoft(
        700082,
        'The refresh token has expired due to inactivity. The token was issued on 2026-07-01 and was inactive for 90.00:00:00.',
      ),
      /expired.*sign in again.*AADSTS700082/,
    ],
    [
      'has an expired sign-in',
      microsoft(70008, 'The provided authorization code or refresh token has expired due to inactivity.'),
      /expired.*AADSTS70008\)/,
    ],
    [
      'changed the password',
      microsoft(
        50173,
        'The provided grant has expired due to it being revoked, a fresh auth token is needed. The user might have changed or reset their password.',
      ),
      /password was changed.*AADSTS50173/,
    ],
    [
      'needs a second factor',
      microsoft(
        50076,
        'Due to a configuration change made by your administrator, or because you moved to a new location, you must use multi-factor authentication to access.',
        'interaction_required',
      ),
      /second factor.*AADSTS50076/,
    ],
    [
      'has to enrol a second factor',
      microsoft(
        50079,
        'Due to a configuration change made by your administrator, you must enroll in multi-factor authentication.',
        'interaction_required',
      ),
      /second factor/,
    ],
    [
      'has withdrawn consent',
      microsoft(
        65001,
        "The user or administrator has not consented to use the application with ID '…' named 'Mail'.",
        'consent_required',
      ),
      /consent.*AADSTS65001/,
    ],
    [
      'is blocked by conditional access',
      microsoft(
        53003,
        'Access has been blocked by Conditional Access policies. The access policy does not allow token issuance.',
        'interaction_required',
      ),
      /conditional access.*administrator/,
    ],
    [
      'revoked access at Google',
      { status: 400, error: 'invalid_grant', description: 'Token has been expired or revoked.' },
      /expired or was revoked.*invalid_grant/,
    ],
    [
      'is unknown at Google',
      { status: 400, error: 'invalid_grant', description: 'Account has been deleted' },
      /sign in again/,
    ],
    [
      'revoked access at Yahoo',
      { status: 400, error: 'invalid_grant', description: 'Refresh token is invalid' },
      /revoked/,
    ],
    [
      'is in an organization that has disabled the app',
      microsoft(7000112, "Application '…'(Mail) is disabled.", 'unauthorized_client'),
      /disabled in the organization.*AADSTS7000112/,
    ],
  ])('%s', (_, failure, detail) => {
    expect(judge(failure)).toEqual({ fault: 'owner', detail: expect.stringMatching(detail) });
  });

  it.each([700016, 7000229])('is in one of many organizations, which has removed the app (AADSTS%d)', (code) => {
    const failure = microsoft(code, "Application '…' was not found in the directory 'Contoso'.", 'unauthorized_client');
    for (const tenant of ['common', 'organizations'])
      expect(judge(failure, { tenant })).toEqual({
        fault: 'owner',
        detail: expect.stringMatching(/removed from the organization.*ask its administrator/),
      });
    // that of Outlook.com is one directory
    for (const tenant of ['contoso.example', 'consumers', null]) expect(judge(failure, { tenant }).fault).toBe('app');
  });

  it('is in a domain whose administrator has not allowed the service account', () => {
    const description =
      'Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested.';
    const failure = { status: 401, error: 'unauthorized_client', description };
    expect(judge(failure, { grant: 'service_account' })).toEqual({
      fault: 'owner',
      detail: expect.stringMatching(/administrator of the domain.*unauthorized_client/),
    });
  });
});

describe('the app', () => {
  it.each<[string, TokenFailure, RegExp]>([
    [
      'has a wrong secret',
      microsoft(
        7000215,
        "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '…'.",
        'invalid_client',
      ),
      /wrong: enter the value/,
    ],
    [
      'has an expired secret',
      microsoft(
        7000222,
        "The provided client secret keys for app '…' are expired. Visit the Azure portal to create new keys for your app.",
        'invalid_client',
      ),
      /expired: create a new one.*AADSTS7000222/,
    ],
    [
      'is unknown',
      microsoft(
        700016,
        "Application with identifier '…' was not found in the directory 'Contoso'.",
        'unauthorized_client',
      ),
      /no app with this client id/,
    ],
    [
      'is in an unknown tenant',
      microsoft(90002, "Tenant 'contoso.example' not found.", 'invalid_request'),
      /no such tenant/,
    ],
    [
      'needs a secret',
      microsoft(
        7000218,
        "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.",
        'invalid_client',
      ),
      /needs a client secret/,
    ],
    [
      'has a wrong scope',
      microsoft(70011, "The provided value for the input parameter 'scope' is not valid.", 'invalid_scope'),
      /scope/,
    ],
    [
      'is unknown at Google',
      { status: 401, error: 'invalid_client', description: 'The OAuth client was not found.' },
      /client id or the client secret is wrong/,
    ],
    [
      'has a wrong secret at Google',
      { status: 401, error: 'invalid_client', description: 'Unauthorized' },
      /wrong.*invalid_client/,
    ],
    [
      'was deleted at Google',
      { status: 401, error: 'deleted_client', description: 'The OAuth client was deleted.' },
      /deleted/,
    ],
    ...(
      [
        ['has a service account whose key was deleted', 'Invalid JWT Signature.', /key of the service account/],
        ['has a disabled service account', 'Robot is disabled.', /service account is disabled.*invalid_grant/],
        ['has a deleted service account', 'Invalid grant: account not found', /service account does not exist/],
      ] as const
    ).map(([name, description, detail]): [string, TokenFailure, RegExp] => [
      name,
      { status: 400, error: 'invalid_grant', description },
      detail,
    ]),
    [
      'may not use refresh tokens at Google',
      { status: 401, error: 'unauthorized_client', description: 'Unauthorized' },
      /may not use/,
    ],
    ['has no service account', { status: 400, error: 'no_service_account' }, /no service account/],
  ])('%s', (_, failure, detail) => {
    expect(judge(failure)).toEqual({ fault: 'app', detail: expect.stringMatching(detail) });
  });
});

describe('the provider', () => {
  it.each<[string, TokenFailure, RegExp]>([
    ['asks for patience', { status: 429, error: 'invalid_request', retryAfterMs: 7_000 }, /fewer requests/],
    ['is down', { status: 503 }, /failed \(HTTP 503\)/],
    [
      'is down with its own error',
      { ...microsoft(90033, 'A transient error has occurred. Please try again.', 'temporarily_unavailable') },
      /temporarily/,
    ],
    ['fails', { status: 500, error: 'server_error' }, /failed/],
    [
      'cannot be reached',
      { cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }) },
      /could not be reached: connection refused/,
    ],
    [
      'has another time than this host',
      {
        status: 400,
        error: 'invalid_grant',
        description:
          'Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.',
      },
      /clock of this host/,
    ],
    ['responds without a token', { status: 200 }, /did not return a token/],
  ])('%s', (_, failure, detail) => {
    expect(judge(failure)).toEqual({ fault: 'provider', detail: expect.stringMatching(detail) });
  });
});

it('quotes codes only: descriptions name users', () => {
  const description = 'AADSTS50034: The user account ann@contoso.example does not exist in the contoso directory.';
  const { detail } = judge({ status: 400, error: 'invalid_grant', description });
  expect(detail).toContain('AADSTS50034');
  expect(detail).not.toMatch(/ann|contoso/);
  expect(judge({ status: 400, error: '<b>ann@contoso.example</b>' }).detail).not.toContain('ann');
});
