import { reasonOf } from '../mail-wire/mail-error.ts';
import type { Grant } from './grant.ts';
import { MANY_ORGANIZATIONS } from './presets.ts';

/*
 * Whose fault it is when no token could be obtained, and what follows:
 *
 * owner     the mailbox's owner or its administrator took the permission back: the account becomes `disconnected`
 * app       what the operator registered is wrong, for all accounts of the app at once: they stay `running`, and say so
 * provider  the token endpoint is away or asks for patience: tried again, as it says
 */
export type Fault = 'owner' | 'app' | 'provider';

/** A response without a token, or none. */
export interface TokenFailure {
  /** HTTP status; undefined: no response */
  status?: number;
  /** `error` and `error_description` of RFC 6749, 5.2 */
  error?: string;
  description?: string;
  /** milliseconds, from `Retry-After` */
  retryAfterMs?: number;
  cause?: unknown;
}

interface Row {
  /** of `error`; undefined: any */
  error?: string;
  /** found in `error_description`; Microsoft's numbers are those of https://login.microsoftonline.com/error */
  description?: RegExp;
  status?: (status: number) => boolean;
  /** undefined: any */
  grant?: Grant['kind'];
  /** the app serves the users of any organization */
  anyTenant?: true;
  fault: Fault;
  /** what happened, and what to do */
  meaning: string;
}

/** A number of Microsoft, which is not part of a longer one. */
const aadsts = (...numbers: number[]) => new RegExp(`AADSTS(?:${numbers.join('|')})(?!\\d)`);

/** Microsoft: one organization does not have the app, or no client has this id. */
const NOT_FOUND = 700016;

const AGAIN = 'the owner has to sign in again';

/** The first row that fits decides. */
const ROWS: readonly Row[] = [
  { status: (status) => status === 429, fault: 'provider', meaning: 'the token endpoint asks for fewer requests' },
  { status: (status) => status >= 500, fault: 'provider', meaning: 'the token endpoint failed' },
  { error: 'temporarily_unavailable', fault: 'provider', meaning: 'the token endpoint is temporarily unavailable' },
  { error: 'server_error', fault: 'provider', meaning: 'the token endpoint failed' },
  { error: 'slow_down', fault: 'provider', meaning: 'the token endpoint asks for fewer requests' },
  // Google says `invalid_grant` of assertions, too
  {
    error: 'invalid_grant',
    description: /^Invalid JWT: Token must be a short-lived token/,
    fault: 'provider',
    meaning: 'the clock of this host differs from that of the provider: set it',
  },

  { description: aadsts(7000222), fault: 'app', meaning: 'the client secret of the app has expired: create a new one' },
  {
    description: aadsts(7000215),
    fault: 'app',
    meaning: 'the client secret is wrong: enter the value of the secret, not its id',
  },
  {
    description: aadsts(NOT_FOUND, 7000229),
    anyTenant: true,
    fault: 'owner',
    meaning: 'the app was removed from the organization, or was not allowed there: ask its administrator',
  },
  {
    description: aadsts(NOT_FOUND),
    fault: 'app',
    meaning: 'the provider knows no app with this client id in this tenant: check both',
  },
  {
    description: aadsts(7000218),
    fault: 'app',
    meaning: 'the app needs a client secret: it is not registered as a public client',
  },
  { description: aadsts(90002), fault: 'app', meaning: 'the provider knows no such tenant' },
  { description: aadsts(50011), fault: 'app', meaning: 'the redirect address is not registered for the app' },
  { description: aadsts(70011), fault: 'app', meaning: 'the scope of the app is not valid' },
  {
    description: aadsts(7000112),
    fault: 'owner',
    meaning: 'the app is disabled in the organization: ask its administrator',
  },
  { error: 'invalid_client', fault: 'app', meaning: 'the client id or the client secret is wrong' },
  {
    error: 'unauthorized_client',
    grant: 'service_account',
    fault: 'owner',
    meaning: 'the administrator of the domain has not allowed the service account to act for its users',
  },
  { error: 'unauthorized_client', fault: 'app', meaning: 'the app may not use this kind of sign-in' },
  {
    error: 'invalid_grant',
    description: /^Invalid JWT Signature/,
    fault: 'app',
    meaning: 'the key of the service account was deleted or replaced: enter a new one',
  },
  {
    error: 'invalid_grant',
    description: /^Robot is disabled/,
    fault: 'app',
    meaning: 'the service account is disabled: enable it',
  },
  {
    error: 'invalid_grant',
    description: /^Invalid grant: account not found/,
    fault: 'app',
    meaning: 'the service account does not exist',
  },
  { error: 'deleted_client', fault: 'app', meaning: 'the app was deleted at the provider' },
  { error: 'no_service_account', fault: 'app', meaning: 'the app has no service account' },
  { error: 'redirect_uri_mismatch', fault: 'app', meaning: 'the redirect address is not registered for the app' },
  { error: 'invalid_scope', fault: 'app', meaning: 'the scope of the app is not valid' },
  { error: 'org_internal', fault: 'app', meaning: 'the app is restricted to users of another organization' },
  {
    error: 'unsupported_grant_type',
    fault: 'app',
    meaning: 'the token endpoint does not support this kind of sign-in',
  },
  {
    error: 'invalid_request',
    description: /client_?id|client_?secret/i,
    fault: 'app',
    meaning: 'the client id or the client secret is wrong',
  },

  {
    description: aadsts(70008, 700082),
    fault: 'owner',
    meaning: `the sign-in has expired, since it was not used for long: ${AGAIN}`,
  },
  {
    description: aadsts(50173),
    fault: 'owner',
    meaning: `the password was changed, or the sign-in was revoked: ${AGAIN}`,
  },
  {
    description: aadsts(50076, 50079, 50074),
    fault: 'owner',
    meaning: `the organization requires a second factor: ${AGAIN}`,
  },
  {
    description: aadsts(65001),
    fault: 'owner',
    meaning:
      'the owner or an administrator has not consented to the app, or has withdrawn it: sign in and consent again',
  },
  {
    description: aadsts(53003, 53000, 53001),
    fault: 'owner',
    meaning: 'conditional access of the organization blocks this app: ask its administrator',
  },
  {
    description: aadsts(50057),
    fault: 'owner',
    meaning: 'the user is disabled: ask the administrator of the organization',
  },
  { description: aadsts(50034), fault: 'owner', meaning: 'the user does not exist in this tenant' },
  { error: 'invalid_grant', fault: 'owner', meaning: `the sign-in has expired or was revoked: ${AGAIN}` },
  { error: 'interaction_required', fault: 'owner', meaning: AGAIN },
  { error: 'consent_required', fault: 'owner', meaning: 'the owner has to consent to the app again' },
  { error: 'other_user', fault: 'owner', meaning: 'the token source answered for another user' },
  { error: 'access_denied', fault: 'owner', meaning: 'the owner refused access' },
  { error: 'authorization_declined', fault: 'owner', meaning: 'the owner refused access' },
  { error: 'expired_token', fault: 'owner', meaning: 'the owner did not agree in time' },
];

/** What nothing else explains; the next attempt may succeed. */
const UNKNOWN: Row = { fault: 'provider', meaning: 'the token endpoint did not return a token' };

/**
 * Whose fault a failure is, and a text for people. The description of the provider stays out: it may name users. `grant`: what the
 * token was requested by; undefined: unknown. `tenant`: that of a Microsoft app.
 */
export function judge(
  failure: TokenFailure,
  { grant, tenant }: { grant?: Grant['kind']; tenant?: string | null } = {},
): { fault: Fault; detail: string } {
  const { status, error, description = '', cause } = failure;
  if (status === undefined)
    return { fault: 'provider', detail: `the token endpoint could not be reached: ${reasonOf(cause)}` };
  const fits = (row: Row) =>
    (row.error === undefined || row.error === error) &&
    (row.grant === undefined || row.grant === grant) &&
    (!row.anyTenant || MANY_ORGANIZATIONS.includes(tenant ?? '')) &&
    (row.description === undefined || row.description.test(description)) &&
    (row.status === undefined || row.status(status));
  const { fault, meaning } = ROWS.find(fits) ?? UNKNOWN;
  return { fault, detail: `${meaning} (${codesOf(failure)})` };
}

/**
 * Whether a failure that `judge` finds to be the owner's may be that of the app: Microsoft says the same where the organization of the
 * user does not have the app and where no client has its id.
 */
export function mayBeUnknownClient({ description = '' }: TokenFailure): boolean {
  return aadsts(NOT_FOUND).test(description);
}

/** The provider's own codes: `invalid_grant`, `AADSTS50173`; without them the HTTP status. */
function codesOf({ status, error, description = '' }: TokenFailure): string {
  const codes = [...(error && /^\w{1,60}$/.test(error) ? [error] : []), ...(/AADSTS\d{4,9}/.exec(description) ?? [])];
  return codes.length > 0 ? codes.join(', ') : `HTTP ${status}`;
}
