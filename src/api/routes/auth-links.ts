import Type from 'typebox';
import {
  AuthLinkCreated,
  AuthLinkDeleted,
  AuthLinkList,
  CreateAuthLink,
  LINK_SECONDS,
  LINK_STATUSES,
  MailServers,
} from '../../contract/auth-link.ts';
import { Limit, Offset, OneOf } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { getAccount } from '../../db/queries/accounts.ts';
import { createAuthLink, deleteAuthLink, listAuthLinks } from '../../db/access/auth-links.ts';
import { limitBy } from '../http/limit-calls.ts';
import { TooManyRequests } from '../http/request-limits.ts';
import { existing, Id, responses, type Routes } from './route.ts';

/** Addresses that one API key may have looked up, in each process. */
const SEARCHES_PER_MINUTE = 60;

/** Links to the hosted connect page, and what the page finds out before a connect. */
export const authLinkRoutes: Routes = (app, { db, settings, findServers }) => {
  app.post(
    '/auth/links',
    {
      config: { reach: 'installation', idempotent: true, audit: 'auth_link.create' },
      schema: {
        tags: ['Accounts'],
        operationId: 'createAuthLink',
        summary: 'Create a link to the connect page',
        description:
          'The owner of a mailbox opens `url` and types address and password there: whoever calls this never sees them. ' +
          'Afterwards the owner is sent to `redirect_url` with `account_id` in its query, or with `error` (`cancelled`, ' +
          '`expired`, `used`), and with `state`. A link connects one mailbox, once.',
        body: CreateAuthLink,
        response: responses('The link', AuthLinkCreated, 'not_found', 'already_exists'),
      },
    },
    async ({ body, caller }) => {
      if (body.redirect_url !== undefined) checkRedirect(body.redirect_url);
      if (body.account_id !== undefined) existing(await getAccount(db, body.account_id), 'account');
      const expiresAt = new Date(Date.now() + (body.expires_in ?? LINK_SECONDS.default) * 1000);
      const { token, authLink } = await createAuthLink(db, {
        redirectUrl: body.redirect_url ?? null,
        state: body.state ?? null,
        name: body.name ?? null,
        accountId: body.account_id ?? null,
        config: body.config ?? {},
        apiKeyId: caller.apiKeyId,
        expiresAt,
      });
      return { ...authLink, url: `${settings.publicUrl}/connect/${token}` };
    },
  );

  app.get(
    '/auth/links',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Accounts'],
        operationId: 'listAuthLinks',
        summary: 'List links to the connect page',
        description: 'Also those that have ended, for a week after they expired; not those that were revoked.',
        querystring: Type.Object({
          status: Type.Optional(OneOf(LINK_STATUSES)),
          account_id: Type.Optional(Type.String({ description: '`acc_…`: links that connect this one again' })),
          offset: Offset,
          limit: Limit(),
        }),
        response: responses('Links, newest first, without their URLs', AuthLinkList),
      },
    },
    async ({ query }) => {
      const { data, hasMore } = await listAuthLinks(db, { ...query, accountId: query.account_id });
      return { object: 'AuthLinks', data, has_more: hasMore };
    },
  );

  app.delete(
    '/auth/links/:id',
    {
      config: { reach: 'installation', audit: 'auth_link.revoke' },
      schema: {
        tags: ['Accounts'],
        operationId: 'revokeAuthLink',
        summary: 'Revoke a link to the connect page',
        description:
          'Its page is not found from then on. One that connected a mailbox already is 404. While a login is being tried with ' +
          'it, 429: no further one begins, since the link has expired then.',
        params: Type.Object({ id: Id('authLink') }),
        response: responses('It is revoked', AuthLinkDeleted, 'not_found'),
      },
    },
    async ({ params }) => {
      const result = await deleteAuthLink(db, params.id);
      if (result === 'used') throw new ApiError('not_found', 'this link was used already: it connected a mailbox');
      if (result === 'busy') {
        throw new TooManyRequests('a login is being tried, and no further one begins: ask again when it has ended', {
          limit: 1,
          resetS: 60,
        });
      }
      existing(result === 'none' ? undefined : result, 'link');
      return { object: 'AuthLinkDeleted', id: params.id };
    },
  );

  // each asks servers of whoever owns the domain
  const limitSearches = limitBy(SEARCHES_PER_MINUTE, 'too many addresses were looked up with this API key');
  app.get(
    '/auth/servers',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Accounts'],
        operationId: 'findMailServers',
        summary: 'Find the servers of an address',
        description:
          'As a connect finds them: known providers, DNS, the documents of the provider. null: not found, so a connect needs ' +
          `that side. Takes 9 s at most. ${SEARCHES_PER_MINUTE} times a minute for each API key.`,
        querystring: Type.Object({ address: Type.String({ minLength: 3, maxLength: 320 }) }),
        response: responses('The servers', MailServers),
      },
    },
    async ({ query, caller }) => {
      limitSearches(caller.apiKeyId);
      return { object: 'MailServers', address: query.address, ...(await findServers(query.address)) };
    },
  );
};

/** @throws ApiError invalid_parameters when a browser should not be sent there */
function checkRedirect(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw new ApiError('invalid_parameters', 'redirect_url must be a URL that begins with https:// or http://');
  }
  if (parsed.username || parsed.password) {
    throw new ApiError('invalid_parameters', 'redirect_url must not hold a user or a password');
  }
}
