import { OutboundRefused, OutboundUnresolved } from '../outbound.ts';

const MESSAGES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed before the answer was complete',
  EPIPE: 'the connection was closed before the answer was complete',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};

const TLS = /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|INVALID_CA$)/;

/** Why a call got no answer, in words that the delivery log may show. */
export function describePostError(error: Error): string {
  if (error instanceof OutboundRefused || error instanceof OutboundUnresolved) return error.message;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined) return 'the call failed';
  const known = MESSAGES[code];
  if (known !== undefined) return known;
  if (TLS.test(code)) return `the TLS connection failed (${code})`;
  return code.startsWith('HPE_') ? `the answer is not valid HTTP (${code})` : `the call failed (${code})`;
}
