import type { OAuthAppVerification } from '../contract/oauth.ts';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import { judge, type TokenFailure } from './faults.ts';
import { clientOf, isForSignIns, obtainToken } from './obtain.ts';
import { NoToken, requestToken } from './request.ts';

type Check = OAuthAppVerification['checks'][number];

export interface WantedChecks {
  redirectUrl: string;
  applicationAccess: boolean;
  /** a user of the domain of a service account; undefined: not checked */
  subject: string | undefined;
}

/** No provider has issued it: a provider that complains about the code has accepted the client. */
const NO_CODE = 'verification-of-the-client-only';
const NO_VERIFIER = 'verification-of-the-client-only-verification';

const NO_SUBJECT: Check = {
  subject: 'service_account',
  outcome: 'unknown',
  detail: 'a service account is tested with subject, an address of the domain',
};

/** Asks the provider of an app about each piece of it, without a user. */
export async function verifyApp(fetch: OutboundFetch, app: StoredApp, wanted: WantedChecks): Promise<Check[]> {
  const checks = isForSignIns(app) ? await checkClient(fetch, app, wanted.redirectUrl) : [];
  const obtain = (grant: Parameters<typeof obtainToken>[1], user: string) =>
    failureOf(obtainToken({ fetch, findApp: async () => app }, grant, { accountId: null, user, refreshToken: null }));
  if (wanted.applicationAccess) {
    const failure = await obtain({ kind: 'client_credentials', appId: app.id }, '');
    checks.push({ subject: 'application_access', ...outcomeOf(failure) });
  }
  if (wanted.subject !== undefined) {
    const failure = await obtain({ kind: 'service_account', appId: app.id, subject: wanted.subject }, wanted.subject);
    checks.push({ subject: 'service_account', ...(failure ? delegationOutcome(failure) : outcomeOf(failure)) });
  }
  return checks.length > 0 ? checks : [NO_SUBJECT];
}

/** Client id, secret and redirect address, by a code that cannot be valid. */
async function checkClient(fetch: OutboundFetch, app: StoredApp, redirectUrl: string): Promise<Check[]> {
  const parameters = { code: NO_CODE, redirect_uri: redirectUrl, code_verifier: NO_VERIFIER };
  const failure = await failureOf(requestToken(fetch, clientOf(app), 'authorization_code', parameters));
  const accepted: Check = { subject: 'client', outcome: 'ok', detail: '' };
  if (!failure) return [accepted];
  const { fault, detail } = judge(failure);
  if (isAboutRedirect(failure)) return [accepted, { subject: 'redirect', outcome: 'wrong', detail }];
  if (fault === 'app' || isDisabled(failure)) return [{ subject: 'client', outcome: 'wrong', detail }];
  // it looked at the code, after it had accepted the client
  if (failure.error === 'invalid_grant') return [accepted];
  return [{ subject: 'client', outcome: 'unknown', detail }];
}

/** In the tenant of the app itself: no account can use it. */
function isDisabled({ description = '' }: TokenFailure): boolean {
  return /AADSTS7000112(?!\d)/.test(description);
}

function isAboutRedirect({ error, description = '' }: TokenFailure): boolean {
  return error === 'redirect_uri_mismatch' || /AADSTS50011(?!\d)/.test(description);
}

function outcomeOf(failure: TokenFailure | undefined): Omit<Check, 'subject'> {
  if (!failure) return { outcome: 'ok', detail: '' };
  const { fault, detail } = judge(failure);
  return { outcome: fault === 'provider' ? 'unknown' : 'wrong', detail };
}

/** Google says `unauthorized_client` when an administrator has not allowed the client id for the scope. */
function delegationOutcome(failure: TokenFailure): Omit<Check, 'subject'> {
  const outcome = outcomeOf(failure);
  if (failure.error !== 'unauthorized_client') return outcome;
  const detail =
    "domain-wide delegation is missing: in Google's admin console, allow the numeric client id of the service account for " +
    `the scope https://mail.google.com/ (${failure.error})`;
  return { ...outcome, detail };
}

async function failureOf(request: Promise<unknown>): Promise<TokenFailure | undefined> {
  try {
    await request;
    return undefined;
  } catch (error) {
    if (error instanceof NoToken) return error.failure;
    throw error;
  }
}
