import * as oauth from 'oauth4webapi';
import { readTokens, tokensLocation } from '../db/coordination/oauth-tokens.ts';
import type { Db } from '../db/driver/client.ts';
import { getApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import type { Secrets } from '../security/secrets.ts';
import { authentication } from './request.ts';
import { clientOf } from './obtain.ts';

/** Takes the sign-in of an account back at its provider (RFC 7009). False: the provider did not confirm it. Never throws. */
export type Revocation = () => Promise<boolean>;

/**
 * Reads what a revocation needs before the account is removed. Its grant has to be a sign-in by an app whose provider has an
 * endpoint for that; otherwise nothing can be revoked.
 */
export async function prepareRevocation(
  { db, secrets, fetch }: { db: Db; secrets: Secrets; fetch: OutboundFetch },
  accountId: string,
): Promise<Revocation> {
  const nothing = async () => false;
  const row = await readTokens(db, accountId);
  const app = row?.appId ? await getApp(db, secrets, row.appId) : undefined;
  const url = app?.endpoints.revocationUrl;
  if (!row || !app || !url) return nothing;
  const { refresh_token: token } = JSON.parse(secrets.open(tokensLocation(accountId), row.tokens)) as {
    refresh_token: string | null;
  };
  if (token === null) return nothing;
  return async () => {
    try {
      const response = await oauth.revocationRequest(
        { issuer: new URL(url).origin, revocation_endpoint: url },
        { client_id: app.clientId },
        authentication(clientOf(app)),
        token,
        {
          additionalParameters: { token_type_hint: 'refresh_token' },
          [oauth.customFetch]: (target, init) => fetch(target, init),
          [oauth.allowInsecureRequests]: true,
        },
      );
      return response.status === 200;
    } catch {
      return false;
    }
  };
}
