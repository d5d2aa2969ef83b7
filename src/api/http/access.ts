import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AuthIntent } from '../../contract/account.ts';
import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { knownAccountIds } from '../../db/queries/accounts.ts';

/*
 * Access of limited keys: to reading, or to some accounts. This file decides before a route runs; only routes with the
 * reach `within` narrow their own results.
 */

/**
 * Scope of a route. `account`: the account in its path; `within`: data of accounts or of callers, which the route narrows to what
 * the caller sees; `installation`: closed to keys of some accounts; `caller`: the caller's own session, open to every key.
 */
export type Reach = 'account' | 'within' | 'installation' | 'caller';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** default: `account` if the path has an `account_id`; required on other routes */
    reach?: Reach;
    /** closed to permissions other than `full`: the route says who may do what */
    isAdministration?: true;
  }
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Requires a reach on every route; the start fails on a route without one. */
export function requireReach(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    const { url, method, config = {} } = route;
    const reach = config.reach ?? (url.includes('/:account_id') ? 'account' : undefined);
    if (reach === undefined) throw new Error(`${String(method)} ${url} has no reach (src/api/http/access.ts)`);
    route.config = { ...config, reach };
  });
}

/** Whether some keys get 403 for this method and reach. */
export function isRestrictable(method: string | string[], reach: Reach | undefined): boolean {
  if (reach === 'caller') return false;
  return reach === 'installation' || ![method].flat().every((one) => READS.has(one));
}

/** @throws ApiError `forbidden`; `not_found` for an account that the key does not see */
export function checkAccess(caller: Caller, { method, params, routeOptions }: FastifyRequest): void {
  const { reach, isAdministration } = routeOptions.config;
  if (reach === 'caller') return;
  if (caller.permissions === 'read' && !READS.has(method)) {
    throw new ApiError('forbidden', 'read-only access: this call changes something');
  }
  if (isAdministration && caller.permissions !== 'full') {
    throw new ApiError('forbidden', 'this call needs full access: it says who may do what');
  }
  if (caller.accountIds === null) return;
  if (reach === 'installation') {
    throw new ApiError(
      'forbidden',
      'this API key is restricted to specific accounts and cannot use installation-wide routes',
    );
  }
  const { account_id, id } = params as { account_id?: string; id?: string };
  if (reach === 'account' && !seesAccount(caller, account_id ?? id ?? '')) throw noAccount();
}

/** Whether the caller may see an account, if it exists. */
export function seesAccount({ accountIds }: Caller, accountId: string): boolean {
  return accountIds === null || accountIds.includes(accountId);
}

/** Accounts to list: those the caller sees, narrowed to the one it asks for. Undefined: all. */
export function visibleAccounts({ accountIds }: Caller, asked: string | undefined): readonly string[] | undefined {
  if (asked === undefined) return accountIds ?? undefined;
  return accountIds === null || accountIds.includes(asked) ? [asked] : [];
}

/**
 * Accounts of a list over several: those that it asks for, or all that the caller sees (null: all). One that the caller does
 * not see is not distinguished from one that does not exist.
 * @throws ApiError `invalid_parameters`
 */
export async function askedAccounts(
  { accountIds }: Caller,
  asked: readonly string[] | undefined,
  db: Queryable,
): Promise<readonly string[] | null> {
  if (asked === undefined) return accountIds;
  const known = await knownAccountIds(
    db,
    asked.filter((id) => isId('account', id)),
  );
  const unknown = asked.findIndex((id) => !known.has(id) || (accountIds !== null && !accountIds.includes(id)));
  if (unknown >= 0 || asked.length === 0) {
    throw new ApiError('invalid_parameters', `account_ids.${Math.max(0, unknown)} is not the id of an account`);
  }
  return [...new Set(asked)];
}

/** The resource, or undefined when the caller does not see its account. */
export function visible<T extends { account_id: string }>(caller: Caller, resource: T | undefined): T | undefined {
  return resource && seesAccount(caller, resource.account_id) ? resource : undefined;
}

/**
 * A delivery with the endpoint's URL blanked for keys of some accounts: endpoints belong to the installation, and their
 * URLs may contain a secret.
 */
export function withoutEndpoint<T extends { endpoint_url: string; endpoint_name: string | null }>(
  caller: Caller,
  delivery: T,
): T {
  if (caller.accountIds !== null) return { ...delivery, endpoint_url: '', endpoint_name: null };
  return { ...delivery, endpoint_url: withoutLogin(caller, delivery.endpoint_url) };
}

/** The URL of an endpoint; for read-only keys, which must not be able to authenticate calls, without user and password. */
export function withoutLogin({ permissions }: Caller, url: string): string {
  if (permissions !== 'read' || !URL.canParse(url)) return url;
  const parsed = new URL(url);
  if (!parsed.username && !parsed.password) return url;
  return Object.assign(parsed, { username: '', password: '' }).href;
}

/**
 * Connects a mailbox. A key of some accounts can only reconnect those, and does not learn of others.
 * @throws ApiError `forbidden`, `not_found`, and the errors of `connect`
 */
export async function connectAs(
  caller: Caller,
  intent: AuthIntent,
  connect: (intent: AuthIntent) => Promise<string>,
): Promise<string> {
  if (caller.accountIds === null) return connect(intent);
  if (intent.account_id === undefined) {
    throw new ApiError('forbidden', 'this API key can only reconnect its own accounts: pass account_id');
  }
  if (!seesAccount(caller, intent.account_id)) throw noAccount();
  if (intent.credentials.oauth2?.grant !== undefined) {
    throw new ApiError(
      'forbidden',
      'this API key cannot use a grant of an OAuth app: it may be valid for other mailboxes',
    );
  }
  return connect(intent).catch((error: unknown) => {
    // this key must not learn that another account holds the mailbox
    if (!(error instanceof ApiError && error.code === 'already_exists')) throw error;
    throw new ApiError('invalid_parameters', OTHER_MAILBOX);
  });
}

/** The error for a mailbox that no account holds; see src/activities/connect.ts. */
const OTHER_MAILBOX = 'account_id belongs to another mailbox: its IMAP host and user stay the same';

function noAccount(): ApiError {
  return new ApiError('not_found', 'no account has this id');
}
