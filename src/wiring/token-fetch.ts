import type { Config } from '../config/config.ts';
import type { Outbound } from '../security/outbound.ts';
import { createOutboundFetch, type OutboundFetch } from '../security/outbound-fetch.ts';

/** A request to an authorization server: its deadline, ms, and its longest response, bytes. */
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 256 * 1024;

/** Calls authorization servers; without TLS on loopback only, where the settings allow that for mail servers. */
export function tokenFetch(outbound: Outbound, { allowInsecureMail }: Config): OutboundFetch {
  return createOutboundFetch({
    outbound,
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    allowsLoopbackHttp: allowInsecureMail !== 'never',
  });
}
