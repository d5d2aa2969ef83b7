import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AuthIntent } from '../../contract/account.ts';
import { ApiError } from '../../contract/errors.ts';
import type { Caller } from '../../db/access/api-keys.ts';

/*
 * What a key may do that is limited: to reading, or to some accounts, besides which there are none for it. Everything is
 * decided here, before a route runs; only a route whose reach is `within` has to narrow what it does itself.
 */

/**
 * What a route is about: one account, which its path names; what belongs to accounts, which it narrows to those that the
 * caller sees; the installation, which keys of some accounts get nothing of; or the caller's own session, which every key has.
 */
export type Reach = 'account' | 'within' | 'installation' | 'caller';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** left out: `account` where the path has an `account_id`; other routes have to say it */
    reach?: Reach;
  }
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Has every route say its reach: the start fails on one that does not. */
export function requireReach(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    const { url, method, config = {} } = route;
    const reach = config.reach ?? (url.includes('/:account_id') ? 'account' : undefined);
    if (reach === undefined)
      throw new Error(`${String(method)} ${url} does not say its reach (src/api/http/access.ts)`);
    route.config = { ...config, reach };
  });
}

/** Whether calls of this method and reach may be forbidden to some keys. */
export function isRestrictable(method: string | string[], reach: Reach | undefined): boolean {
  if (reach === 'caller') return false;
  return reach === 'installation' || ![method].flat().every((one) => READS.has(one));
}

/** @throws ApiError `forbidden`; `not_found` for an account that the key does not see */
export function checkAccess(caller: Caller, { method, params, routeOptions }: FastifyRequest): void {
  const { reach } = routeOptions.config;
  if (reach === 'caller') return;
  if (caller.permissions === 'read' && !READS.has(method)) {
    throw new ApiError('forbidden', 'the permissions of this API key are read: it changes nothing');
  }
  if (caller.accountIds === null) return;
  if (reach === 'installation') {
    throw new ApiError(
      'forbidden',
      'this API key is limited to some accounts: what is about all of them needs another',
    );
  }
  const { account_id, id } = params as { account_id?: string; id?: string };
  if (reach === 'account' && !seesAccount(caller, account_id ?? id ?? '')) throw noAccount();
}

/** Whether there is such an account for the caller, if there is one at all. */
export function seesAccount({ accountIds }: Caller, accountId: string): boolean {
  return accountIds === null || accountIds.includes(accountId);
}

/** The accounts of a list: those that the caller sees, or the one of them that it asks for. Undefined: all. */
export function visibleAccounts({ accountIds }: Caller, asked: string | undefined): readonly string[] | undefined {
  if (asked === undefined) return accountIds ?? undefined;
  return accountIds === null || accountIds.includes(asked) ? [asked] : [];
}

/** What belongs to an account, unless the caller does not see that. */
export function visible<T extends { account_id: string }>(caller: Caller, resource: T | undefined): T | undefined {
  return resource && seesAccount(caller, resource.account_id) ? resource : undefined;
}

/**
 * A delivery as the caller may see it: an endpoint belongs to the installation, so a key of some accounts does not learn
 * its URL, which may hold a secret. '' is in its place.
 */
export function withoutEndpoint<T extends { endpoint_url: string }>({ accountIds }: Caller, delivery: T): T {
  return accountIds === null ? delivery : { ...delivery, endpoint_url: '' };
}

/**
 * Connects a mailbox. A key that is limited to some accounts connects those again and no other, and learns of none.
 * @throws ApiError also what `connect` throws
 */
export async function connectAs(
  caller: Caller,
  intent: AuthIntent,
  connect: (intent: AuthIntent) => Promise<string>,
): Promise<string> {
  if (caller.accountIds === null) return connect(intent);
  if (intent.account_id === undefined) {
    throw new ApiError('forbidden', 'this API key is limited to some accounts: it connects only them, by account_id');
  }
  if (!seesAccount(caller, intent.account_id)) throw noAccount();
  return connect(intent).catch((error: unknown) => {
    // that another account holds the mailbox is not for this key to know
    if (!(error instanceof ApiError && error.code === 'already_exists')) throw error;
    throw new ApiError('invalid_parameters', OTHER_MAILBOX);
  });
}

/** As for a mailbox that no account holds; see src/activities/connect.ts. */
const OTHER_MAILBOX = 'account_id belongs to another mailbox: its IMAP host and user stay the same';

function noAccount(): ApiError {
  return new ApiError('not_found', 'there is no account with that id');
}
