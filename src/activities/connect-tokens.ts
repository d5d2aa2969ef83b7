import { repeatFor } from '../async.ts';
import type { ConnectIntent, ServerLogin } from '../contract/account.ts';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import { type OAuth2Credentials, OTHER_ADDRESS, type SignIn } from '../contract/oauth.ts';
import { intentLocation, replaceIntent } from '../db/access/connect-intents.ts';
import { deleteTokens, putTokens } from '../db/coordination/oauth-tokens.ts';
import type { Db, Tx } from '../db/driver/client.ts';
import { getApp, holdApp } from '../db/queries/oauth-apps.ts';
import { grantOf } from '../oauth/grant.ts';
import { appIdOf } from '../oauth/obtain.ts';
import { isSameMailbox } from '../oauth/sign-in.ts';
import { columnsOf, type SignedIn, type StoredTokens, type Tokens } from '../oauth/tokens.ts';
import { isUnavailable } from '../outage.ts';
import type { Secrets } from '../security/secrets.ts';
import { invalid, loginAddressOf, type SideLogin } from './connect-settings.ts';

/** An intent and the tokens that were issued for its grant. */
export type IntentWithTokens = ConnectIntent & { tokens?: StoredTokens };

/** What both sides of a mailbox log in with. */
export interface Sides {
  imap: SideLogin;
  smtp: SideLogin;
}

/** The grant of the sides without a password; both have the same. */
export function grantIn({ imap, smtp }: Sides): OAuth2Credentials | undefined {
  return [imap, smtp].flatMap((side) => ('oauth2' in side ? [side.oauth2] : []))[0];
}

/**
 * Adds the tokens of an owner to an intent.
 * @throws ApiError invalid_credentials when the owner signed in with another address
 */
export function addSignIn(intent: IntentWithTokens, appId: string, { tokens, addresses }: SignedIn): void {
  const address = loginAddressOf(intent.credentials)?.toLowerCase() ?? '';
  if (addresses.length > 0 && !addresses.some((each) => isSameMailbox(each, address)))
    throw new ApiError('invalid_credentials', OTHER_ADDRESS);
  intent.credentials.oauth2 = { refresh_token: tokens.refreshToken ?? '', app_id: appId };
  intent.tokens = tokens;
}

/** How long after the response tokens are stored in spite of a failing database, and how often that is attempted, ms. */
const STORED_WITHIN_MS = 30_000;
const STORE_EVERY_MS = 500;

/**
 * Stores tokens that were issued: repeats `store` while the database fails, for half a minute. An attempt that failed would leave
 * the next one with a refresh token or a code that works once only.
 */
export function storeIssued(store: () => Promise<void>): Promise<void> {
  return repeatFor({ forMs: STORED_WITHIN_MS, everyMs: STORE_EVERY_MS }, store, (error) => {
    if (!isUnavailable(error)) throw error;
  });
}

const NO_SUCH_APP = 'credentials.oauth2.app_id: no OAuth app has this id';

export type ConnectTokens = ReturnType<typeof createConnectTokens>;

/** The tokens of mailboxes that are being connected. */
export function createConnectTokens(deps: { db: Db; secrets: Secrets; tokens: Tokens }) {
  const { db, secrets } = deps;

  /**
   * The first tokens of the grant that the caller gave; undefined when it gave none that is used. They are added to the
   * intent: a repeated attempt must not use the refresh token again.
   */
  async function issue(intentId: string, intent: IntentWithTokens, sides: Sides): Promise<StoredTokens | undefined> {
    const { oauth2 } = intent.credentials;
    if (!oauth2 || grantIn(sides) !== oauth2) return undefined;
    await checkHosts(oauth2, sides);
    if (!intent.tokens) {
      intent.tokens = await deps.tokens.first(oauth2, sides.imap.user);
      await keepIntent(intentId, intent);
    }
    const { expiresAt, renewAt, ...tokens } = intent.tokens;
    return { ...tokens, expiresAt: expiresAt && new Date(expiresAt), renewAt: renewAt && new Date(renewAt) };
  }

  function keepIntent(intentId: string, intent: IntentWithTokens): Promise<void> {
    const sealed = secrets.seal(intentLocation(intentId), JSON.stringify(intent));
    return storeIssued(() => replaceIntent(db, intentId, sealed));
  }

  /**
   * Replaces the sign-in of an intent, whose code works once, by its tokens.
   * @throws ApiError invalid_credentials when the owner signed in with another address
   */
  async function completeSignIn(intentId: string, intent: IntentWithTokens, signIn: SignIn): Promise<void> {
    addSignIn(intent, signIn.app_id, await deps.tokens.signIn(signIn));
    delete intent.sign_in;
    await keepIntent(intentId, intent);
  }

  /** The tokens of an app may open many mailboxes: they go to servers of its provider only. @throws ApiError */
  async function checkHosts(oauth2: OAuth2Credentials, sides: Sides): Promise<void> {
    const appId = appIdOf(grantOf(oauth2));
    if (appId === undefined) return;
    const app = isId('oauthApp', appId) ? await getApp(db, secrets, appId) : undefined;
    if (!app) throw invalid(NO_SUCH_APP);
    for (const side of ['imap', 'smtp'] as const) {
      if ('password' in sides[side] || app.hosts.includes(sides[side].host.toLowerCase())) continue;
      throw invalid(`credentials.${side}.host is none of the hosts of the OAuth app ${appId}`);
    }
  }

  /** A side with its password, or with a token: one that was just issued, or one of the account. */
  async function loginOf(
    side: SideLogin,
    issued: StoredTokens | undefined,
    accountId: string | undefined,
  ): Promise<ServerLogin> {
    if ('password' in side) return side;
    const { oauth2: _, ...server } = side;
    if (issued) {
      const { accessToken: password, expiresAt, renewAt } = issued;
      return { ...server, password, token: { expiresAt, renewAt } };
    }
    const { value: password, ...token } = await deps.tokens.current(accountId ?? '', 'imap');
    return { ...server, password, token };
  }

  /**
   * Stores the tokens of a new grant; deletes those of an account without one.
   * @throws ApiError invalid_parameters when the app of the grant was deleted in the meantime
   */
  async function save(tx: Tx, accountId: string, sides: Sides, issued: StoredTokens | undefined): Promise<void> {
    if (issued) {
      const appId = appIdOf(grantOf(grantIn(sides) ?? {})) ?? null;
      if (appId !== null && !(await holdApp(tx, appId))) throw invalid(NO_SUCH_APP);
      await putTokens(tx, { accountId, appId, ...columnsOf(secrets, accountId, issued) });
    } else if (!grantIn(sides)) await deleteTokens(tx, accountId);
  }

  return { issue, completeSignIn, loginOf, save };
}
