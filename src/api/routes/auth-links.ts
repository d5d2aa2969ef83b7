import Type from 'typebox';
import { AuthLink, CreateAuthLink, LINK_SECONDS, MailServers } from '../../contract/auth-link.ts';
import { ApiError } from '../../contract/errors.ts';
import { getAccount } from '../../db/accounts.ts';
import { createAuthLink } from '../../db/auth-links.ts';
import { limitBy } from '../limit-calls.ts';
import { existing, responses, type Routes } from './route.ts';

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
        response: responses('The link', AuthLink, 'not_found', 'already_exists'),
      },
    },
    async ({ body, caller }) => {
      if (body.redirect_url !== undefined) checkRedirect(body.redirect_url);
      if (body.account_id !== undefined) existing(await getAccount(db, body.account_id), 'account');
      const expiresAt = new Date(Date.now() + (body.expires_in ?? LINK_SECONDS.default) * 1000);
      const { id, token } = await createAuthLink(db, {
        redirectUrl: body.redirect_url ?? null,
        state: body.state ?? null,
        name: body.name ?? null,
        accountId: body.account_id ?? null,
        config: body.config ?? {},
        apiKeyId: caller.apiKeyId,
        expiresAt,
      });
      const url = `${settings.publicUrl}/connect/${token}`;
      return { object: 'AuthLink', id, url, expires_at: expiresAt.toISOString() };
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
