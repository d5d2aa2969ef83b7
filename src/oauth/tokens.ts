import { createSharedLimiter, repeatFor } from '../async.ts';
import type { TokenTimes } from '../contract/account.ts';
import type { DeviceGrant, OAuth2Credentials, SignIn } from '../contract/oauth.ts';
import {
  changeTokens,
  lockTokens,
  readCredentials,
  readTokens,
  renewalsAround,
  type TokenRow,
  tokensLocation,
} from '../db/coordination/oauth-tokens.ts';
import type { Db, Queryable } from '../db/driver/client.ts';
import {
  getApp,
  markAppFailing,
  markAppWorking,
  returnProbe,
  type StoredApp,
  takeProbe,
} from '../db/queries/oauth-apps.ts';
import { MailError, type MailSide } from '../mail-wire/mail-error.ts';
import type { Logger } from '../runtime/logger.ts';
import { measured } from '../runtime/measure.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import type { Secrets } from '../security/secrets.ts';
import { redeemDevice } from './device.ts';
import { type Fault, judge } from './faults.ts';
import { type Grant, grantOf } from './grant.ts';
import { appIdOf, obtainToken, type TokenUser } from './obtain.ts';
import { type Issued, NoToken } from './request.ts';
import { addressesIn, exchangeCode } from './sign-in.ts';
import { judgeWithCheck } from './verify-app.ts';

/*
 * The access tokens of accounts. Each process that needs one reads the row of the account; when it is due for renewal, one
 * process of all renews it, under a lock of the row, and the others wait for the result. A new refresh token is committed
 * before anything uses it: some providers revoke a sign-in whose refresh token comes twice.
 */

export interface TokenDeps {
  db: Db;
  secrets: Secrets;
  logger: Logger;
  fetch: OutboundFetch;
  /** opens `accounts.credentials` and returns their `oauth2`. Throws CredentialsUnreadable */
  oauth2Of(accountId: string, credentials: Buffer): OAuth2Credentials | undefined;
}

/** An access token for a login. */
export interface AccessToken extends TokenTimes {
  value: string;
}

export interface Tokens {
  /**
   * The access token of an account, renewed when it is due.
   * @throws MailError `invalid_credentials` when the owner has to sign in again, `provider_error` when the token endpoint
   * failed, or the client that its caller gave is refused; AppFailing
   */
  current(accountId: string, side: MailSide): Promise<AccessToken>;
  /** The server refused that token: the next call gets another one, if the grant allows it. */
  refused(accountId: string, token: string): Promise<void>;
  /** The first tokens of a grant, which are stored nowhere. Throws as `current`. */
  first(given: OAuth2Credentials, user: string): Promise<StoredTokens>;
  /** The first tokens of a sign-in by the owner, and the addresses that the provider named. Throws as `current`. */
  signIn(signIn: SignIn): Promise<SignedIn>;
  /**
   * The first tokens of a sign-in on another device. `waitS`: seconds to add to the interval once: the owner has not agreed yet, the
   * provider asks for patience, or is away; `slowerS`: seconds to add to it for good. Throws as `current`.
   */
  device(grant: DeviceGrant): Promise<SignedIn | { waitS: number; slowerS?: number }>;
}

/** Tokens of an owner, and the addresses that the provider named. */
export interface SignedIn {
  tokens: StoredTokens;
  addresses: string[];
}

/** What the operator registered at the provider is wrong: no account that uses it gets a token. */
export class AppFailing extends Error {
  override readonly name = 'AppFailing';
  /** may be shown to callers */
  readonly detail: string;
  constructor(detail: string, options?: ErrorOptions) {
    super('an OAuth app is failing', options);
    this.detail = detail;
  }
}

/** Tokens as they are sealed in `oauth_tokens.tokens`, with the times that are columns. */
export interface StoredTokens extends TokenTimes {
  accessToken: string;
  /** null: the grant is not one of refresh tokens */
  refreshToken: string | null;
}

const NO_REFRESH_TOKEN =
  'the provider issued no refresh token: the scope of the app must include it (offline_access at most providers)';

/** Requests at a time, in each process: each holds a connection of the database. Two slow token endpoints delay their accounts only. */
const AT_ONCE = { total: 10, each: 4 };
/** An old token is used while a new one cannot be had, unless it expires within this, ms. */
const SPARE_MS = 20_000;
/** After a failure without `Retry-After`, ms. */
const RETRY_MS = 15_000;
const MINUTE = 60_000;

/** Makes the tokens of this process. */
export function createTokens(deps: TokenDeps): Tokens {
  const { db, secrets } = deps;
  const limit = createSharedLimiter(AT_ONCE);
  const renewing = new Map<string, Promise<Renewal>>();

  async function current(accountId: string, side: MailSide): Promise<AccessToken> {
    const row = await readTokens(db, accountId);
    if (!row) throw new MailError('invalid_credentials', side, 'no token is stored for this account: connect it again');
    if (isFresh(row)) return tokenOf(row, openTokens(secrets, row).accessToken);
    const shared = renewing.get(accountId) ?? inTurn(row).finally(() => renewing.delete(accountId));
    renewing.set(accountId, shared);
    const renewal = await shared;
    if ('token' in renewal) return renewal.token;
    // a client that the caller registered for this account: no app can say that it fails
    throw errorOf(renewal.fault === 'app' && row.appId === null ? { ...renewal, fault: 'provider' } : renewal, side);
  }

  async function inTurn({ accountId, appId }: TokenRow): Promise<Renewal> {
    return limit(appId ?? (await endpointOf(deps, accountId)), () => renew(deps, accountId));
  }

  async function refused(accountId: string, token: string): Promise<void> {
    const row = await readTokens(db, accountId);
    if (!row || openTokens(secrets, row).accessToken !== token) return;
    const now = new Date();
    await changeTokens(db, row, { renewAt: now, expiresAt: now, retryAt: null });
  }

  async function appOf(id: string): Promise<StoredApp> {
    const app = await getApp(db, secrets, id);
    if (!app) throw new AppFailing('the OAuth app no longer exists');
    return app;
  }

  return {
    current,
    refused,
    async first(given, user) {
      const grant = grantOf(given);
      const { result, noteApp } = await obtain(deps, db, grant, { accountId: null, user, refreshToken: null });
      // nothing is known of an app by one caller's grant, which may belong to another client
      if ('fault' in result) throw errorOf(result, 'imap');
      // a failure of the database must not lose what was issued; the next account records that the app works
      await noteApp().catch(() => {});
      return result;
    },
    async signIn(signIn) {
      const app = await appOf(signIn.app_id);
      return signedIn(db, await exchangeCode(deps.fetch, app, signIn).catch(refusedAs));
    },
    async device({ app_id, device_code }) {
      const app = await appOf(app_id);
      try {
        return await signedIn(db, await redeemDevice(deps.fetch, app, device_code));
      } catch (error) {
        if (!(error instanceof NoToken)) throw error;
        const { error: code } = error.failure;
        if (code === 'authorization_pending') return { waitS: 0 };
        // RFC 8628, 3.5
        if (code === 'slow_down') return { waitS: 5, slowerS: 5 };
        if (judge(error.failure).fault === 'provider') return { waitS: (error.failure.retryAfterMs ?? 5_000) / 1000 };
        return refusedAs(error);
      }
    },
  };
}

/** A new token, or why it is missing. */
type Renewal = { token: AccessToken } | Refusal;
interface Refusal {
  fault: Fault;
  detail: string;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

function errorOf({ fault, detail, cause }: Refusal, side: MailSide): Error {
  if (fault === 'app') return new AppFailing(detail, { cause });
  return new MailError(fault === 'owner' ? 'invalid_credentials' : 'provider_error', side, detail, { cause });
}

function refusedAs(cause: unknown): never {
  if (cause instanceof NoToken) throw errorOf({ ...judge(cause.failure), cause }, 'imap');
  throw cause;
}

/** @throws AppFailing */
async function signedIn(db: Queryable, issued: Issued): Promise<SignedIn> {
  if (issued.refreshToken === null) throw new AppFailing(NO_REFRESH_TOKEN);
  return { tokens: await stored(db, issued), addresses: addressesIn(issued.idToken) };
}

function isFresh({ renewAt, expiresAt }: TokenRow): boolean {
  const due = renewAt ?? expiresAt;
  return due === null || due.getTime() > Date.now();
}

/** The host that issues the tokens of a grant without an app; empty: none does. */
async function endpointOf({ db, oauth2Of }: TokenDeps, accountId: string): Promise<string> {
  const credentials = await readCredentials(db, accountId);
  const given = credentials && oauth2Of(accountId, credentials);
  const url = given?.token_url ?? given?.token_source_url;
  return url === undefined ? '' : new URL(url).host;
}

async function renew(deps: TokenDeps, accountId: string): Promise<Renewal> {
  let previous: TokenRow | undefined;
  let next: StoredTokens | undefined;
  let noteApp: Noted['noteApp'] = NOTHING;
  const result = await deps.db
    .transaction(async (tx): Promise<Renewal> => {
      const locked = await lockTokens(tx, accountId);
      if (!locked) return { fault: 'owner', detail: 'the account no longer exists' };
      const { row } = locked;
      const stored = openTokens(deps.secrets, row);
      if (isFresh(row)) return { token: tokenOf(row, stored.accessToken) };
      const now = Date.now();
      if (row.retryAt && row.retryAt.getTime() > now)
        return spareOr(row, stored, { fault: row.fault as Fault, detail: row.failure });
      const given = deps.oauth2Of(accountId, locked.credentials);
      if (!given) return { fault: 'owner', detail: 'no OAuth 2.0 grant is stored for this account: connect it again' };
      const { refreshToken } = stored;
      const whom = { accountId, user: locked.user, refreshToken };
      const { result: obtained, ...noted } = await obtain(deps, tx, grantOf(given), whom);
      ({ noteApp } = noted);
      if ('fault' in obtained) return noteFailure(deps, tx, row, obtained);
      next = obtained;
      previous = row;
      await changeTokens(tx, row, columnsOf(deps.secrets, accountId, next));
      return { token: { value: next.accessToken, expiresAt: next.expiresAt, renewAt: next.renewAt } };
    })
    .catch(async (error: unknown): Promise<Renewal> => {
      if (!previous || !next) throw error;
      // The endpoint has issued them: the old refresh token may be void, so the new one must not be lost.
      await saveAfterOutage(deps, previous, next);
      return { token: { value: next.accessToken, expiresAt: next.expiresAt, renewAt: next.renewAt } };
    });
  await noteApp();
  return result;
}

/** Stores when the next request may follow. */
async function noteFailure(deps: TokenDeps, tx: Queryable, row: TokenRow, refusal: Refusal): Promise<Renewal> {
  const { fault, detail, cause } = refusal;
  // without a cause there was no request: another account's failed
  if (cause) deps.logger.warn({ accountId: row.accountId, fault, detail }, 'no access token from the token endpoint');
  const waitMs = refusal.retryAfterMs ?? RETRY_MS * (0.8 + 0.4 * Math.random());
  const retryAt = fault === 'owner' ? null : new Date(Date.now() + waitMs);
  await changeTokens(tx, row, { retryAt, fault, failure: detail });
  return spareOr({ ...row, retryAt }, openTokens(deps.secrets, row), refusal);
}

/** The old token while it is valid, unless the owner took the permission back. */
function spareOr(row: TokenRow, { accessToken }: StoredTokens, refusal: Refusal): Renewal {
  const left = row.expiresAt === null ? 0 : row.expiresAt.getTime() - Date.now();
  if (refusal.fault === 'owner' || left < SPARE_MS) return refusal;
  // a connection that is opened with it is not replaced at each attempt
  const renewAt = new Date(Math.max(row.retryAt?.getTime() ?? 0, Date.now() + left / 2));
  return { token: { ...tokenOf(row, accessToken), renewAt } };
}

const SAVE_EVERY_MS = 500;

async function saveAfterOutage({ db, secrets, logger }: TokenDeps, row: TokenRow, next: StoredTokens): Promise<void> {
  const save = () => changeTokens(db, row, columnsOf(secrets, row.accountId, next));
  return repeatFor({ forMs: 10 * MINUTE, everyMs: SAVE_EVERY_MS }, save, (err) =>
    logger.warn({ err, accountId: row.accountId }, 'could not store new tokens; retrying'),
  );
}

/** The result of a request for tokens. */
interface Noted {
  result: StoredTokens | Refusal;
  /**
   * Records a change of the state of the app, with its event. It locks accounts, and a connect that has locked one waits for the
   * lock of its tokens: call it without that.
   */
  noteApp(): Promise<void>;
}
const NOTHING = async () => {};

/** Requests tokens, with the app of the grant if it has one. */
async function obtain(deps: TokenDeps, db: Queryable, grant: Grant, whom: TokenUser): Promise<Noted> {
  const { fetch, secrets, logger } = deps;
  const appId = appIdOf(grant);
  const app = appId === undefined ? undefined : await getApp(db, secrets, appId);
  // a connect asks without: its caller's grant may be refused, which tests nothing
  if (app?.failingSince && whom.accountId !== null && !(await takeProbe(deps.db, app.id)))
    return { result: { fault: 'app', detail: appDetail(app.id, app.failure) }, noteApp: NOTHING };
  try {
    const issued = await obtainToken({ fetch, findApp: async () => app }, grant, whom);
    measured('oauthToken', { outcome: 'issued' });
    const noteApp = async () => {
      if (app?.failingSince && (await markAppWorking(deps.db, app.id)))
        logger.info({ appId: app.id }, 'OAuth app works again');
    };
    return { result: await stored(db, issued), noteApp };
  } catch (cause) {
    if (!(cause instanceof NoToken)) throw cause;
    const refusal = { ...(await judgeWithCheck(fetch, cause.failure, { grant: grant.kind, app })), cause };
    const { fault, detail } = refusal;
    measured('oauthToken', { outcome: fault });
    const noteApp = app ? () => noteRefusal(deps, app, refusal) : NOTHING;
    if (fault !== 'app' || appId === undefined) return { result: refusal, noteApp };
    return { result: { ...refusal, detail: appDetail(appId, detail) }, noteApp };
  }
}

async function noteRefusal({ db, logger }: TokenDeps, app: StoredApp, { fault, detail }: Refusal): Promise<void> {
  // it says nothing of the app: another account asks next, at once
  if (fault === 'owner' && app.failingSince) await returnProbe(db, app.id);
  if (fault === 'app' && (await markAppFailing(db, app, detail)))
    logger.error({ appId: app.id, detail }, 'OAuth app is failing');
}

const appDetail = (id: string, detail: string) => `the OAuth app ${id} is failing: ${detail}`;

/** Between these parts of its life a token is renewed: accounts that were connected together are spread. */
const RENEWED = { from: 0.65, to: 0.95 };

async function stored(db: Queryable, { accessToken, refreshToken, expiresAt }: Issued): Promise<StoredTokens> {
  const renewAt = expiresAt && (await quieter(db, renewalTime(expiresAt), renewalTime(expiresAt)));
  return { accessToken, refreshToken, expiresAt, renewAt };
}

function renewalTime(expiresAt: Date): Date {
  const part = RENEWED.from + (RENEWED.to - RENEWED.from) * Math.random();
  return new Date(Date.now() + part * (expiresAt.getTime() - Date.now()));
}

/** The time around which fewer tokens are due. It does not fail: the tokens have been issued, and must not be lost. */
async function quieter(db: Queryable, one: Date, other: Date): Promise<Date> {
  const [atOne = 0, atOther = 0] = await renewalsAround(db, [one, other]).catch(() => []);
  return atOther < atOne ? other : one;
}

function tokenOf({ expiresAt, renewAt }: TokenTimes, value: string): AccessToken {
  return { value, expiresAt, renewAt };
}

/** Seals tokens for the row of an account. */
export function columnsOf(secrets: Secrets, accountId: string, tokens: StoredTokens) {
  const { accessToken, refreshToken, expiresAt, renewAt } = tokens;
  const text = JSON.stringify({ access_token: accessToken, refresh_token: refreshToken });
  return {
    tokens: secrets.seal(tokensLocation(accountId), text),
    expiresAt,
    renewAt,
    retryAt: null,
    fault: '',
    failure: '',
  };
}

function openTokens(secrets: Secrets, { accountId, tokens, expiresAt, renewAt }: TokenRow): StoredTokens {
  const { access_token: accessToken, refresh_token: refreshToken } = JSON.parse(
    secrets.open(tokensLocation(accountId), tokens),
  ) as { access_token: string; refresh_token: string | null };
  return { accessToken, refreshToken, expiresAt, renewAt };
}
