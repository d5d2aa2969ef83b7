import * as oauth from 'oauth4webapi';
import type { StoredApp } from '../db/queries/oauth-apps.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import { clientOf } from './obtain.ts';
import { authentication, failureOf, type Issued, NoToken, requestToken } from './request.ts';

/** What a provider returns for a sign-in on another device (RFC 8628, 3.2). */
export interface DeviceCode {
  deviceCode: string;
  userCode: string;
  verificationUri: string;
  verificationUriComplete: string | null;
  expiresAt: Date;
  /** between two requests for the token, seconds */
  intervalS: number;
}

/** RFC 8628, 3.5. */
const DEFAULT_INTERVAL_S = 5;
/** A provider's own values are used within these bounds, seconds. */
const BOUNDS = { interval: { min: 1, max: 60 }, life: { min: 30, max: 3600 } };

/**
 * Begins a sign-in on another device.
 * @throws NoToken when the provider refuses; undefined: the app's provider has no device authorization endpoint
 */
export async function beginDevice(fetch: OutboundFetch, app: StoredApp): Promise<DeviceCode | undefined> {
  const { deviceUrl, tokenUrl } = app.endpoints;
  if (deviceUrl === null) return undefined;
  const server = { issuer: new URL(tokenUrl).origin, device_authorization_endpoint: deviceUrl };
  let response: Response;
  try {
    response = await oauth.deviceAuthorizationRequest(
      server,
      { client_id: app.clientId },
      authentication(clientOf(app)),
      { scope: app.scope },
      { [oauth.customFetch]: (url, init) => fetch(url, init), [oauth.allowInsecureRequests]: true },
    );
  } catch (cause) {
    throw new NoToken({ cause });
  }
  const body = (await response
    .clone()
    .json()
    .catch(() => null)) as Record<string, unknown> | null;
  const { device_code, user_code, verification_uri, verification_uri_complete: complete } = body ?? {};
  // Google's name of an earlier draft
  const uri = verification_uri ?? body?.['verification_url'];
  const texts = [device_code, user_code, uri];
  if (response.status !== 200 || !texts.every((each) => typeof each === 'string'))
    throw new NoToken(failureOf(response, body));
  const [deviceCode = '', userCode = '', verificationUri = ''] = texts;
  const life = within(Number(body?.['expires_in']), 900, BOUNDS.life);
  return {
    deviceCode,
    userCode,
    verificationUri,
    verificationUriComplete: typeof complete === 'string' ? complete : null,
    expiresAt: new Date(Date.now() + life * 1000),
    intervalS: within(Number(body?.['interval']), DEFAULT_INTERVAL_S, BOUNDS.interval),
  };
}

function within(value: number, fallback: number, { min, max }: { min: number; max: number }): number {
  return Number.isFinite(value) && value > 0 ? Math.min(max, Math.max(min, value)) : fallback;
}

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** Requests the token of a sign-in on another device. @throws NoToken with `authorization_pending` until the owner agrees */
export function redeemDevice(fetch: OutboundFetch, app: StoredApp, deviceCode: string): Promise<Issued> {
  return requestToken(fetch, clientOf(app), DEVICE_GRANT, { device_code: deviceCode });
}
