import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify';
import Type from 'typebox';
import { AuthIntent, type ConnectIntent } from '../contract/account.ts';
import type { LinkError, LinkPage, SignInOffer } from '../contract/auth-link.ts';
import { ApiError, ERRORS } from '../contract/errors.ts';
import { type OAuthProvider, OTHER_ADDRESS } from '../contract/oauth.ts';
import { listAppsOfHost } from '../db/queries/oauth-apps.ts';
import { getAccount } from '../db/queries/accounts.ts';
import {
  beginAttempt,
  cancelAuthLink,
  endAttempt,
  findAuthLink,
  hasConnected,
  noteConnected,
  type StoredAuthLink,
} from '../db/access/auth-links.ts';
import { signInAppOf } from '../oauth/sign-in.ts';
import { beginSignIn, serveOAuthCallback } from './oauth-callback.ts';
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
/** The holder of a link logs in with a password: a grant of an app would let them choose any mailbox of it. */
const credentials = Type.Omit(AuthIntent.properties.credentials, ['oauth2']);
const Body = Type.Object({ credentials });
/** Made by the page, which keeps it over a reload: the browser that has it may learn how its login ended. */
const Session = Type.String({ pattern: '^[0-9a-f]{32}$' });
const ConnectBody = Type.Object({ credentials, session: Type.Optional(Session) });

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

  app.get('/connect/:token/link', { schema: { hide: true, params: Params } }, async ({ params, ip }) =>
    pageOf(deps, await linkOf(params.token, ip)),
  );

  app.get(
    '/connect/:token/servers',
    {
      schema: {
        hide: true,
        params: Params,
        querystring: Type.Object({
          address: Type.String({ minLength: 3, maxLength: 320 }),
          imap_host: Type.Optional(Type.String({ minLength: 1, maxLength: 253 })),
        }),
      },
    },
    async ({ params, query, ip }) => {
      requireOpen(await linkOf(params.token, ip));
      const found = await findServers(query.address);
      const host = query.imap_host ?? found.imap?.host;
      return { ...found, sign_in: host === undefined ? null : await offerOf(deps, host) };
    },
  );

  serveSignIn(app, deps, linkOf);
  serveResult(app, deps, linkOf);

  app.post('/connect/:token', { schema: { hide: true, params: Params, body: ConnectBody } }, async (request) => {
    const { params, body, ip } = request;
    if (!isSameOrigin(request, settings.publicUrl))
      throw new ApiError('unauthorized', 'this call must come from the connect page');
    const link = await linkOf(params.token, ip);
    requireOpen(link);
    requirePassword(body.credentials);
    if (!(await beginAttempt(db, link.id))) {
      throw busy('a login is in progress, or too many logins failed; retry in a minute');
    }
    const accountId = await audited(deps, request, link, () =>
      connectOnce(deps, link, { credentials: passwordsIn(body) }, body.session),
    );
    return resultOf(link, accountId);
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

/** Finds the logo of a link, for the policy of its page; undefined: it has none, or it cannot be found now. */
export function findLinkLogo({ db }: ApiDeps): (token: string, address: string) => Promise<string | undefined> {
  const limit = limitCalls(CALLS_PER_MINUTE);
  return async (token, address) => {
    try {
      limit(address);
      return (await findAuthLink(db, token))?.brand?.logo;
    } catch {
      // the page shows why: it calls `/connect/{token}/link`
      return undefined;
    }
  };
}

/** What the page of a link shows. */
async function pageOf(deps: ApiDeps, link: StoredAuthLink): Promise<LinkPage> {
  const { name, color, logoUrl } = deps.settings.brand;
  const account = link.accountId === null ? undefined : await getAccount(deps.db, link.accountId);
  const status = stateOf(link);
  return {
    status,
    brand: { name: link.brand?.name ?? name, color, logo_url: link.brand?.logo ?? logoUrl },
    address: status === 'open' ? (account?.user_id ?? null) : null,
    login: account ? deps.helpFor(account.connection_params.mail.imap_host) : null,
    sign_in: account ? await offerOf(deps, account.connection_params.mail.imap_host) : null,
    back_url: backUrl(link, { error: status === 'open' ? 'cancelled' : status }),
  };
}

/** The mailbox that an owner signs in for: that of the link, or the one that was typed. */
async function mailboxOf(deps: ApiDeps, link: StoredAuthLink, { credentials }: Type.Static<typeof Body>) {
  const account = link.accountId === null ? undefined : await getAccount(deps.db, link.accountId);
  if (account) {
    return { credentials: { user: account.user_id }, host: account.connection_params.mail.imap_host };
  }
  const { user = '' } = credentials;
  const [imap, smtp] = [serverIn(credentials.imap), serverIn(credentials.smtp)];
  const host = imap?.host ?? (await deps.findServers(user)).imap?.host ?? '';
  return { credentials: { user, ...(imap ? { imap } : {}), ...(smtp ? { smtp } : {}) }, host };
}

/** A side without its own login. */
function serverIn(side: AuthIntent['credentials']['imap']) {
  if (!side) return undefined;
  const { host, port, encryption } = side;
  return { host, port, ...(encryption === undefined ? {} : { encryption }) };
}

type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

/** Serves the result of a login once more, to a page that did not get the response. */
function serveResult(
  app: App,
  { db, settings }: ApiDeps,
  linkOf: (token: string, address: string) => Promise<StoredAuthLink>,
): void {
  app.post(
    '/connect/:token/result',
    { schema: { hide: true, params: Params, body: Type.Object({ session: Session }) } },
    async (request) => {
      if (!isSameOrigin(request, settings.publicUrl))
        throw new ApiError('unauthorized', 'this call must come from the connect page');
      const link = await linkOf(request.params.token, request.ip);
      const { connectedId } = link;
      if (connectedId === null || !(await hasConnected(db, link, request.body.session)))
        throw new ApiError('not_found', 'this session has not connected a mailbox by this link');
      return resultOf(link, connectedId);
    },
  );
}

/** Serves the way to the provider's page and back. */
function serveSignIn(
  app: App,
  deps: ApiDeps,
  linkOf: (token: string, address: string) => Promise<StoredAuthLink>,
): void {
  const { db, settings } = deps;

  app.post(
    '/connect/:token/sign-in',
    { schema: { hide: true, params: Params, body: Body } },
    async (request, reply) => {
      const { params, body, ip } = request;
      if (!isSameOrigin(request, settings.publicUrl))
        throw new ApiError('unauthorized', 'this call must come from the connect page');
      const link = await linkOf(params.token, ip);
      requireOpen(link);
      const { credentials, host } = await mailboxOf(deps, link, body);
      const oauthApp = signInAppOf(await listAppsOfHost(db, deps.secrets, host));
      const url =
        oauthApp &&
        (await beginSignIn(deps, { request, reply }, oauthApp, { id: link.id, token: params.token, credentials }));
      if (url === undefined)
        throw new ApiError('invalid_parameters', 'no sign-in is set up for the provider of this address');
      return { url };
    },
  );

  serveOAuthCallback(app, deps, async (request, { token, credentials, result }) => {
    const page = (query: string) => `${settings.publicUrl}/connect/${token}?${query}`;
    const link = await findAuthLink(db, token);
    // the page says how it ended
    if (!link || stateOf(link) !== 'open') return `${settings.publicUrl}/connect/${token}`;
    if ('error' in result) return page(`error=${encodeURIComponent(result.error)}`);
    if (!(await beginAttempt(db, link.id))) return page('error=too_many_requests');
    try {
      const login = { credentials, sign_in: result.signIn };
      const accountId = await audited(deps, request, link, () => connectOnce(deps, link, login));
      return backUrl(link, { account_id: accountId }) ?? page('connected=1');
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return page(`error=${error.detail === OTHER_ADDRESS ? 'other_address' : error.code}`);
    }
  });
}

/** The sign-in for mailboxes on that IMAP host; null: none is set up. */
async function offerOf({ db, secrets }: ApiDeps, host: string): Promise<SignInOffer | null> {
  const app = signInAppOf(await listAppsOfHost(db, secrets, host));
  if (!app) return null;
  return { name: PROVIDER_NAMES[app.provider] ?? app.name, only: app.provider === 'microsoft' };
}

/** As owners know them. */
const PROVIDER_NAMES: Partial<Record<OAuthProvider, string>> = {
  google: 'Google',
  microsoft: 'Microsoft',
  yahoo: 'Yahoo',
  fastmail: 'Fastmail',
};

function busy(detail: string): TooManyRequests {
  return new TooManyRequests(detail, { limit: 1, resetS: 60 });
}

/** The login that the owner typed; other fields of the body are dropped, such as a grant of an app. */
function passwordsIn({
  credentials: { user, password, imap, smtp },
}: Type.Static<typeof Body>): AuthIntent['credentials'] {
  return {
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(imap ? { imap } : {}),
    ...(smtp ? { smtp } : {}),
  };
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
  login: Pick<ConnectIntent, 'credentials' | 'sign_in'>,
  session?: string,
): Promise<string> {
  let accountId: string | null = null;
  try {
    accountId = await commands.connectMailbox({
      provider: 'imap',
      by_link: true,
      ...login,
      config: link.config,
      ...(link.state === null ? {} : { state: link.state }),
      ...(link.accountId === null ? {} : { account_id: link.accountId }),
      ...(link.name === null ? {} : { name: link.name }),
    });
    // without it only a reload of the page learns less
    if (session !== undefined) await noteConnected(db, link, session).catch(() => {});
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

/** What the page gets after a login: the account, and where the owner goes. */
function resultOf(link: StoredAuthLink, accountId: string) {
  return { account_id: accountId, redirect_url: backUrl(link, { account_id: accountId }) };
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
