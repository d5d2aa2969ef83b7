import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { AuthIntent } from '../contract/account.ts';
import type { LinkError, LinkPage } from '../contract/auth-link.ts';
import { ApiError, ERRORS } from '../contract/errors.ts';
import { getAccount } from '../db/queries/accounts.ts';
import {
  beginAttempt,
  cancelAuthLink,
  endAttempt,
  findAuthLink,
  type StoredAuthLink,
} from '../db/access/auth-links.ts';
import { recordConnect } from './http/audit.ts';
import type { ApiDeps } from './deps.ts';
import { limitCalls } from './http/limit-calls.ts';
import { isSameOrigin } from './http/session-cookie.ts';
import { TooManyRequests } from './http/request-limits.ts';

/*
 * Routes of the hosted connect page (POST /auth/links creates the links to it). The token in the path is the only
 * credential: it allows finding servers and connecting one mailbox. The page uses neither key nor cookie.
 */

const Params = Type.Object({ token: Type.String({ maxLength: 64 }) });
const { credentials } = AuthIntent.properties;
const Body = Type.Object({ credentials });

/** Calls per minute from one address. */
const CALLS_PER_MINUTE = 60;

/** Serves `/connect/{token}/…`. */
export function serveConnectPage(instance: FastifyInstance, deps: ApiDeps): void {
  const app = instance.withTypeProvider<TypeBoxTypeProvider>();
  const { db, findServers, settings } = deps;
  const limit = limitCalls(CALLS_PER_MINUTE);

  /** @throws ApiError not_found */
  async function linkOf(token: string, address: string): Promise<StoredAuthLink> {
    limit(address);
    const link = await findAuthLink(db, token);
    if (!link) throw new ApiError('not_found', 'no link has this token');
    return link;
  }

  app.get('/connect/:token/link', { schema: { hide: true, params: Params } }, async ({ params, ip }) => {
    const link = await linkOf(params.token, ip);
    const account = link.accountId === null ? undefined : await getAccount(db, link.accountId);
    const status = stateOf(link);
    const page: LinkPage = {
      status,
      brand: { name: settings.brand.name, color: settings.brand.color, logo_url: settings.brand.logoUrl },
      address: status === 'open' ? (account?.user_id ?? null) : null,
      back_url: backUrl(link, { error: status === 'open' ? 'cancelled' : status }),
    };
    return page;
  });

  app.get(
    '/connect/:token/servers',
    {
      schema: {
        hide: true,
        params: Params,
        querystring: Type.Object({ address: Type.String({ minLength: 3, maxLength: 320 }) }),
      },
    },
    async ({ params, query, ip }) => {
      requireOpen(await linkOf(params.token, ip));
      return findServers(query.address);
    },
  );

  app.post('/connect/:token', { schema: { hide: true, params: Params, body: Body } }, async (request) => {
    const { params, body, ip } = request;
    if (!isSameOrigin(request, settings.publicUrl))
      throw new ApiError('unauthorized', 'this call must come from the connect page');
    const link = await linkOf(params.token, ip);
    requireOpen(link);
    requirePassword(body.credentials);
    if (!(await beginAttempt(db, link.id))) {
      throw busy('a login is in progress, or too many logins failed; retry in a minute');
    }
    const accountId = await audited(deps, request, link, () => connectOnce(deps, link, body.credentials));
    return { account_id: accountId, redirect_url: backUrl(link, { account_id: accountId }) };
  });

  app.post('/connect/:token/cancel', { schema: { hide: true, params: Params } }, async (request) => {
    if (!isSameOrigin(request, settings.publicUrl))
      throw new ApiError('unauthorized', 'this call must come from the connect page');
    const link = await linkOf(request.params.token, request.ip);
    requireOpen(link);
    if (!(await cancelAuthLink(db, link.id))) throw busy('a login is in progress; retry when it has finished');
    return { redirect_url: backUrl(link, { error: 'cancelled' }) };
  });
}

function busy(detail: string): TooManyRequests {
  return new TooManyRequests(detail, { limit: 1, resetS: 60 });
}

/**
 * Holding a link proves no ownership of the mailbox; the login does. A stored password would prove nothing.
 * @throws ApiError invalid_parameters
 */
function requirePassword({ imap, password }: AuthIntent['credentials']): void {
  if ((imap?.password ?? password) === undefined) {
    throw new ApiError('invalid_parameters', 'credentials.password is missing');
  }
}

/** Records a login by a link in the audit log, under the key that created the link. */
async function audited(
  { db, logger }: ApiDeps,
  { id: requestId, ip: address }: FastifyRequest,
  { apiKeyId, accountId }: StoredAuthLink,
  connect: () => Promise<string>,
): Promise<string> {
  const call = { apiKeyId, address, requestId };
  const record = (status: number, objectId: string | null) =>
    recordConnect(db, { ...call, status, objectId }).catch((err: unknown) =>
      logger.error({ err, ...call, status }, 'could not store audit record'),
    );
  try {
    const connected = await connect();
    await record(200, connected);
    return connected;
  } catch (error) {
    await record(error instanceof ApiError ? ERRORS[error.code].status : 500, accountId);
    throw error;
  }
}

/** Attempts one login. Success uses up the link; failure opens it again. */
async function connectOnce(
  { db, commands }: ApiDeps,
  link: StoredAuthLink,
  login: AuthIntent['credentials'],
): Promise<string> {
  let accountId: string | null = null;
  try {
    accountId = await commands.connectMailbox({
      provider: 'imap',
      by_link: true,
      credentials: login,
      config: link.config,
      ...(link.state === null ? {} : { state: link.state }),
      ...(link.accountId === null ? {} : { account_id: link.accountId }),
      ...(link.name === null ? {} : { name: link.name }),
    });
    return accountId;
  } finally {
    await endAttempt(db, link.id, accountId);
  }
}

function stateOf({ usedAt, connectedId, expiresAt }: StoredAuthLink): 'open' | LinkError {
  if (usedAt !== null) return connectedId === null ? 'cancelled' : 'used';
  return expiresAt.getTime() > Date.now() ? 'open' : 'expired';
}

const CLOSED: Record<LinkError, string> = {
  used: 'this link has already been used',
  expired: 'this link has expired',
  cancelled: 'this link was cancelled',
};

function requireOpen(link: StoredAuthLink): void {
  const state = stateOf(link);
  if (state !== 'open') throw new ApiError('not_found', CLOSED[state]);
}

/** URL that the owner is redirected to; null: the link has none. */
function backUrl({ redirectUrl, state }: StoredAuthLink, result: Record<string, string>): string | null {
  if (redirectUrl === null) return null;
  const url = new URL(redirectUrl);
  for (const [name, value] of Object.entries({ ...result, ...(state === null ? {} : { state }) })) {
    url.searchParams.set(name, value);
  }
  return url.href;
}
