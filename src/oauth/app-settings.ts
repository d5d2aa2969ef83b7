import * as oauth from 'oauth4webapi';
import { ApiError } from '../contract/errors.ts';
import type { CreateOAuthApp, OAuthProvider, UpdateOAuthApp } from '../contract/oauth.ts';
import type { AppSecrets, AppSettings, StoredApp } from '../db/queries/oauth-apps.ts';
import { reasonOf } from '../mail-wire/mail-error.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import { type Endpoints, type Place, type Preset, presetOf } from './presets.ts';

/**
 * The settings of a new app: those of its provider, where the caller gives no others.
 * @throws ApiError invalid_parameters
 */
export async function settingsOfNew(fetch: OutboundFetch, given: CreateOAuthApp): Promise<AppSettings & AppSecrets> {
  checkFields(given);
  const place = given.provider === 'microsoft' ? placeOf(given) : { tenant: null, cloud: null };
  const preset = presetOf(given.provider, placeOf(given)) ?? (await presetOfIssuer(fetch, given));
  return {
    ...place,
    ...accountOf(given.service_account),
    provider: given.provider,
    name: given.name,
    clientId: given.client_id,
    clientSecret: given.client_secret ?? null,
    endpoints: preset.endpoints,
    scope: given.scope ?? preset.scope,
    applicationScope: preset.applicationScope,
    secretIn: given.client_auth ?? 'body',
    hosts: (given.hosts ?? preset.hosts).map((host) => host.toLowerCase()),
  };
}

async function presetOfIssuer(
  fetch: OutboundFetch,
  { issuer = '', scope, hosts = [] }: CreateOAuthApp,
): Promise<Preset> {
  if (scope === undefined) throw wrong('custom needs scope');
  if (hosts.length === 0) throw wrong('hosts must name the IMAP and SMTP servers that take its tokens');
  return { endpoints: await discover(fetch, issuer), scope, applicationScope: null, parameters: {}, hosts };
}

function checkFields({ provider, tenant, cloud, issuer, service_account: account }: CreateOAuthApp): void {
  if (provider !== 'microsoft' && (tenant ?? cloud) !== undefined) throw wrong('tenant and cloud belong to microsoft');
  checkAccount(provider, account);
  if ((provider === 'custom') !== (issuer !== undefined)) throw wrong('custom, and no other provider, needs issuer');
}

function checkAccount(provider: OAuthProvider, account: CreateOAuthApp['service_account']): void {
  if (account && provider !== 'google' && provider !== 'custom')
    throw wrong('service_account belongs to google and custom');
}

function placeOf({ tenant = 'common', cloud = 'global' }: Pick<CreateOAuthApp, 'tenant' | 'cloud'>): Place {
  return { tenant, cloud };
}

function accountOf(account: CreateOAuthApp['service_account']): Pick<StoredApp, 'serviceAccountEmail' | 'privateKey'> {
  return { serviceAccountEmail: account?.client_email ?? null, privateKey: account?.private_key ?? null };
}

/** The settings of an app after a change. @throws ApiError invalid_parameters */
export function changedSettings(app: StoredApp, change: UpdateOAuthApp): AppSettings & AppSecrets {
  const { tenant, service_account: account, hosts } = change;
  if (tenant !== undefined && app.provider !== 'microsoft') throw wrong('tenant belongs to microsoft');
  checkAccount(app.provider, account);
  const { id: _, failure: _failure, failingSince: _since, createdAt: _created, updatedAt: _updated, ...settings } = app;
  return {
    ...settings,
    ...moved(app, tenant),
    ...(account === undefined ? {} : accountOf(account)),
    ...(change.client_secret === undefined ? {} : { clientSecret: change.client_secret }),
    ...(hosts ? { hosts: hosts.map((host) => host.toLowerCase()) } : {}),
    name: change.name ?? app.name,
    clientId: change.client_id ?? app.clientId,
    scope: change.scope ?? app.scope,
    secretIn: change.client_auth ?? app.secretIn,
  };
}

/** The endpoints of another tenant. */
function moved({ provider, cloud }: StoredApp, tenant: string | undefined): Partial<AppSettings> {
  const preset = tenant === undefined ? undefined : presetOf(provider, { tenant, cloud: cloud ?? 'global' });
  return preset && tenant !== undefined ? { tenant, endpoints: preset.endpoints } : {};
}

/** Reads the endpoints of an authorization server: RFC 8414, else OpenID Connect Discovery. @throws ApiError */
async function discover(fetch: OutboundFetch, issuer: string): Promise<Endpoints> {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw wrong('issuer must be a URL with https://');
  let failure: unknown;
  for (const algorithm of ['oauth2', 'oidc'] as const) {
    try {
      const response = await oauth.discoveryRequest(url, {
        algorithm,
        [oauth.customFetch]: (target, init) => fetch(target, init),
        [oauth.allowInsecureRequests]: true,
      });
      return endpointsOf(await oauth.processDiscoveryResponse(url, response));
    } catch (error) {
      if (error instanceof ApiError) throw error;
      failure = error;
    }
  }
  const reason =
    failure instanceof oauth.OperationProcessingError
      ? 'the response is not metadata of this issuer'
      : reasonOf(failure);
  throw wrong(`issuer: its metadata could not be read: ${reason}`);
}

function endpointsOf(metadata: oauth.AuthorizationServer): Endpoints {
  if (!metadata.token_endpoint) throw wrong('issuer: its metadata has no token_endpoint');
  return {
    issuer: metadata.issuer,
    authorizationUrl: metadata.authorization_endpoint ?? null,
    tokenUrl: metadata.token_endpoint,
    revocationUrl: metadata.revocation_endpoint ?? null,
    deviceUrl: metadata.device_authorization_endpoint ?? null,
  };
}

function wrong(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
