import { withDeadline } from '../async.ts';
import type { OAuthAppVerification } from '../contract/oauth.ts';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import { type Fault, judge, mayBeUnknownClient, type TokenFailure } from './faults.ts';
import type { Grant } from './grant.ts';
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
/** Where only the client is checked. A provider that complains about it has accepted the client, too. */
const ANY_REDIRECT = 'http://localhost';
/** Time for the response, ms: the check of a renewal follows a request that may have taken 30 s, in one transaction. */
const CHECK_MS = 10_000;

const NO_SUBJECT: Check = {
  subject: 'service_account',
  outcome: 'unknown',
  detail: 'a service account is tested with subject, an address of the domain',
};

/** Asks the provider of an app about each piece of it, without a user. */
export async function verifyApp(fetch: OutboundFetch, app: StoredApp, wanted: WantedChecks): Promise<Check[]> {
  const checks = isForSignIns(app) ? clientChecks(await refusalOfNoCode(fetch, app, wanted.redirectUrl)) : [];
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

/**
 * `judge` of a request with the client of an app. Where the failure may be that of one organization or of the client, the client is
 * checked without a user: an organization that has removed the app disconnects its own accounts, a wrong client id none.
 */
export async function judgeWithCheck(
  fetch: OutboundFetch,
  failure: TokenFailure,
  { grant, app }: { grant: Grant['kind']; app: StoredApp | undefined },
): Promise<{ fault: Fault; detail: string; retryAfterMs?: number | undefined }> {
  const judged = judge(failure, { grant, tenant: app?.tenant ?? null });
  const { retryAfterMs } = failure;
  if (!app || judged.fault !== 'owner' || !mayBeUnknownClient(failure)) return { ...judged, retryAfterMs };
  const refusal = await refusalOfNoCode(fetch, app, ANY_REDIRECT);
  const { outcome, detail } = clientCheck(refusal);
  // a code that it finds malformed may have been refused before the client was looked at: no account is disconnected for that
  if (outcome === 'ok' && isMalformed(refusal)) return { ...judged, fault: 'provider', retryAfterMs };
  if (outcome === 'ok') return { ...judged, retryAfterMs };
  return { fault: outcome === 'wrong' ? 'app' : 'provider', detail, retryAfterMs: refusal?.retryAfterMs };
}

/** What the provider says of a code that cannot be valid. It names no user, so that no organization but that of the app is asked. */
function refusalOfNoCode(fetch: OutboundFetch, app: StoredApp, redirectUrl: string): Promise<TokenFailure | undefined> {
  const parameters = { code: NO_CODE, redirect_uri: redirectUrl, code_verifier: NO_VERIFIER };
  const late = () => new NoToken({ cause: Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' }) });
  return failureOf(withDeadline(CHECK_MS, requestToken(fetch, clientOf(app), 'authorization_code', parameters), late));
}

/** Client id, secret and redirect address, by the refusal of such a code. */
function clientChecks(failure: TokenFailure | undefined): Check[] {
  const check = clientCheck(failure);
  if (!failure || !isAboutRedirect(failure)) return [check];
  return [check, { subject: 'redirect', outcome: 'wrong', detail: judge(failure).detail }];
}

function clientCheck(failure: TokenFailure | undefined): Check {
  const accepted: Check = { subject: 'client', outcome: 'ok', detail: '' };
  if (!failure || isAboutRedirect(failure)) return accepted;
  // judged without the tenant: no organization of a user was asked, which may have removed the app
  const { fault, detail } = judge(failure);
  if (fault === 'app' || isDisabled(failure)) return { subject: 'client', outcome: 'wrong', detail };
  // it looked at the code, after it had accepted the client
  if (failure.error === 'invalid_grant') return accepted;
  return { subject: 'client', outcome: 'unknown', detail };
}

/** In the tenant of the app itself: no account can use it. */
function isDisabled({ description = '' }: TokenFailure): boolean {
  return /AADSTS7000112(?!\d)/.test(description);
}

function isMalformed(failure: TokenFailure | undefined): boolean {
  return /AADSTS9002313(?!\d)/.test(failure?.description ?? '');
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
