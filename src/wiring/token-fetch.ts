import type { Config } from '../config/config.ts';
import type { Outbound } from '../security/outbound.ts';
import { createOutboundFetch, type OutboundFetch } from '../security/outbound-fetch.ts';
import { sparingSilentHosts } from '../security/silent-hosts.ts';

/**
 * A request to an authorization server: its deadline, ms, and its longest response, bytes. A request that is given up may already
 * have used up the refresh token, and using that again revokes the sign-in at some providers: better a late response than none.
 */
const TIMEOUT_MS = 30_000;
const MAX_BYTES = 256 * 1024;

/** Calls authorization servers; without TLS on loopback only, where the settings allow that for mail servers. */
export function tokenFetch(outbound: Outbound, { allowInsecureMail }: Config): OutboundFetch {
  const fetch = createOutboundFetch({
    outbound,
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    allowsLoopbackHttp: allowInsecureMail !== 'never',
  });
  return sparingSilentHosts(fetch);
}
