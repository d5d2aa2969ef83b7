import type { PersonSignIn } from '../api/deps.ts';
import type { SignInConfig } from '../config/config.ts';
import { createIdentityProvider } from '../oauth/identity.ts';
import { createOutbound } from '../security/outbound.ts';
import { createOutboundFetch } from '../security/outbound-fetch.ts';

/** A request to the issuer: its deadline, ms, and its longest response, bytes. */
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 256 * 1024;

/** Makes the sign-in of people. The operator names the issuer, not a caller: it may be in a private network. */
export function personSignIn({ client, groups }: SignInConfig): PersonSignIn {
  const fetch = createOutboundFetch({
    outbound: createOutbound({ allow: ['0.0.0.0/0', '::/0'] }),
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    allowsLoopbackHttp: true,
  });
  return { provider: createIdentityProvider(fetch, client), groups };
}
