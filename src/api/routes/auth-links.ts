import Type from 'typebox';
import {
  AuthLinkCreated,
  AuthLinkDeleted,
  AuthLinkList,
  CreateAuthLink,
  type LinkBrand,
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

/** Server look-ups per minute and API key, in each process. */
const SEARCHES_PER_MINUTE = 60;

/** Routes that manage links to the hosted connect page, and that find the servers of an address. */
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
          'The owner of a mailbox opens `url` and enters address and password there; the caller never sees them. ' +
          'The page then redirects the owner to `redirect_url`, with `account_id` or `error` (`cancelled`, `expired`, ' +
          '`used`), and `state`, in the query. A link connects one mailbox, once. Its holder chooses address and servers: ' +
          '`user_id` of the account proves no ownership of that address.',
        body: CreateAuthLink,
        response: responses('The link', AuthLinkCreated, 'not_found', 'already_exists'),
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      if (body.redirect_url !== undefined) checkRedirect(body.redirect_url);
      if (body.brand) checkBrand(body.brand);
      if (body.account_id !== undefined) existing(await getAccount(db, body.account_id), 'account');
      const expiresAt = new Date(Date.now() + (body.expires_in ?? LINK_SECONDS.default) * 1000);
      const link = {
        redirectUrl: body.redirect_url ?? null,
        state: body.state ?? null,
        name: body.name ?? null,
        accountId: body.account_id ?? null,
        config: body.config ?? {},
        brand: body.brand ?? null,
        apiKeyId: caller.apiKeyId,
        expiresAt,
      };
      return request.once(reply, async (tx) => {
        const { token, authLink } = await createAuthLink(tx, link);
        return { ...authLink, url: `${settings.publicUrl}/connect/${token}` };
      });
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
        description: 'Includes used and cancelled links, and expired links for a week; excludes revoked links.',
        querystring: Type.Object({
          status: Type.Optional(OneOf(LINK_STATUSES, { description: 'links with this status' })),
          account_id: Type.Optional(Type.String({ description: '`acc_…`: links that reconnect this account' })),
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
          'The page of the link then returns 404. A link that already connected a mailbox returns 404. A link with a login in ' +
          'progress returns 429: it expires immediately, so no further login can begin.',
        params: Type.Object({ id: Id('authLink') }),
        response: responses('The link is revoked', AuthLinkDeleted, 'not_found'),
      },
    },
    async ({ params }) => {
      const result = await deleteAuthLink(db, params.id);
      if (result === 'used') throw new ApiError('not_found', 'this link has already connected a mailbox');
      if (result === 'busy') {
        throw new TooManyRequests('a login with this link is in progress; retry when it has finished', {
          limit: 1,
          resetS: 60,
        });
      }
      existing(result === 'none' ? undefined : result, 'link');
      return { object: 'AuthLinkDeleted', id: params.id };
    },
  );

  // each look-up calls servers of the domain's owner
  const limitSearches = limitBy(SEARCHES_PER_MINUTE, 'too many server lookups with this API key');
  app.get(
    '/auth/servers',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Accounts'],
        operationId: 'findMailServers',
        summary: 'Find the servers of an address',
        description:
          'Returns the servers that a connect would use, from known providers, DNS and documents of the provider. ' +
          `A server that is null was not found: pass it to connect. Responds within 9 s. Each API key can make ${SEARCHES_PER_MINUTE} calls per minute.`,
        querystring: Type.Object({
          address: Type.String({ minLength: 3, maxLength: 320, description: 'email address' }),
        }),
        response: responses('The servers', MailServers),
      },
    },
    async ({ query, caller }) => {
      limitSearches(caller.apiKeyId);
      return { object: 'MailServers', address: query.address, ...(await findServers(query.address)) };
    },
  );
};

/** Checks a URL to redirect browsers to. @throws ApiError invalid_parameters */
function checkRedirect(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw new ApiError('invalid_parameters', 'redirect_url must be a URL with http:// or https://');
  }
  if (parsed.username || parsed.password) {
    throw new ApiError('invalid_parameters', 'redirect_url must not contain a user or password');
  }
}

/** Images that browsers show without running anything in them. */
const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/]+={0,2}$/;
/** Controls, and marks that change the direction of what follows: they could make the page say something else. */
const UNSEEN = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/u;

/** @throws ApiError invalid_parameters naming the field */
function checkBrand({ name, logo }: LinkBrand): void {
  if (name !== undefined && (UNSEEN.test(name) || name.trim() === '')) {
    throw new ApiError('invalid_parameters', 'brand.name must be visible text without control or direction characters');
  }
  if (logo === undefined || DATA_IMAGE.test(logo)) return;
  const url = URL.canParse(logo) ? new URL(logo) : undefined;
  if (url?.protocol !== 'https:' || url.username || url.password || logo.length > MAX_URL) {
    throw new ApiError(
      'invalid_parameters',
      'brand.logo must be a data URL of a PNG, JPEG, GIF, WebP or SVG image in base64, or an https:// URL without a login',
    );
  }
}

const MAX_URL = 2048;
