import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../contract/errors.ts';
import { isOwnHost } from '../../runtime/local-hosts.ts';
import type { ApiSettings } from '../deps.ts';
import { readForwardedAddresses } from './forwarded.ts';

/** Routes that need no key and say something of the installation. Tracking links may have any host. */
const KEYLESS = /^\/(health|ready|metrics|docs|llms\.txt|openapi\.json)(\/|$)/;

/** Checks the headers that say where a request comes from and where it goes, before anything relies on them. */
export function checkHeaders(
  app: FastifyInstance,
  settings: Pick<ApiSettings, 'publicUrl' | 'isLocal' | 'trustProxy'>,
): void {
  checkHosts(app, settings);
  if (settings.trustProxy !== false) readForwardedAddresses(app);
}

/**
 * Refuses requests with several `Host` headers (RFC 9112, section 3.2), and, where the API listens on loopback only, those
 * of web pages that reached the routes without a key under another name.
 */
function checkHosts(app: FastifyInstance, { publicUrl, isLocal }: { publicUrl: string; isLocal: boolean }): void {
  const known = [new URL(publicUrl).hostname];
  app.addHook('onRequest', async ({ raw: { rawHeaders, headers }, routeOptions }) => {
    const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host');
    if (hosts.length > 1) throw new ApiError('invalid_parameters', 'the request has several Host headers');
    // not the host that X-Forwarded-Host claims: a page can set that
    if (isLocal && KEYLESS.test(routeOptions.url ?? '') && !isOwnHost(headers.host, known)) {
      throw new ApiError('forbidden', 'use the host of PUBLIC_URL, or an address of this machine');
    }
  });
}
