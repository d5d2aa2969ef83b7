/** Codes of Node, of imapflow and of nodemailer. */
const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'timed out',
  ETIMEOUT: 'timed out',
  GREETING_TIMEOUT: 'timed out',
  CONNECT_TIMEOUT: 'timed out',
  UPGRADE_TIMEOUT: 'timed out',
  ENOTFOUND: 'unknown host',
  EAI_AGAIN: 'unknown host',
  NoConnection: 'connection closed',
  EConnectionClosed: 'connection closed',
  ECONNECTION: 'connection closed',
  LiteralTooLarge: 'the answer was too large',
  LineTooLarge: 'the answer was too large',
  ResponseTooLarge: 'the answer was too large',
  DownloadOverflow: 'the answer was too large',
  TooManyAnswers: 'the answer was too large',
  EPROTOCOL: 'the answer was not understood',
  ETLS: 'TLS failed',
};

/** Codes of Node and OpenSSL for a TLS handshake or a certificate that failed. */
const TLS_CODE = /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO$|HOSTNAME_MISMATCH|STARTTLS)/;

/** Why a server could not be reached: a short reason built from codes, never from text that a server chose. */
export function reasonOf(cause: unknown): string {
  const error = (cause ?? {}) as { name?: string; code?: string; originalCode?: string; tlsFailed?: boolean };
  if (error.name === 'OutboundRefused') return 'the address is not allowed';
  if (error.name === 'OutboundUnresolved') return 'unknown host';
  // nodemailer puts its own code in the place of the system's
  const code = error.originalCode ?? error.code ?? '';
  if (REASONS[code]) return REASONS[code];
  if (error.tlsFailed || TLS_CODE.test(code)) return `TLS failed (${code || 'no TLS'})`;
  return /^\w{1,40}$/.test(code) ? code : 'connection closed';
}
