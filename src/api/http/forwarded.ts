import { isIP } from 'node:net';
import type { FastifyInstance } from 'fastify';

/**
 * Behind a proxy: takes only IP addresses from `X-Forwarded-For`, without their ports. A client can send anything there; with
 * other text, or with a port for each connection, it would never reach a limit by address. An entry that is no address ends
 * the list, from the right, where the nearest proxy adds: dropping it alone would shift the entries that are trusted.
 */
export function readForwardedAddresses(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers } = request.raw;
    const given = headers['x-forwarded-for'];
    if (typeof given === 'string') headers['x-forwarded-for'] = addressesIn(given).join(', ');
    done();
  });
}

function addressesIn(list: string): string[] {
  const addresses: string[] = [];
  for (const entry of list.split(',').reverse()) {
    const address = withoutPort(entry.trim());
    if (isIP(address) === 0) break;
    addresses.unshift(address);
  }
  return addresses;
}

/** `192.0.2.1:4711` and `[2001:db8::1]:4711` as the address alone. */
function withoutPort(entry: string): string {
  return /^\[([^\]]*)\](?::\d+)?$/.exec(entry)?.[1] ?? /^([\d.]+):\d+$/.exec(entry)?.[1] ?? entry;
}
