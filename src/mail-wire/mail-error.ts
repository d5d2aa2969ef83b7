/** The meaning of a mail server's failure for the caller; it decides the HTTP response. */
export type MailErrorCode = 'invalid_credentials' | 'provider_rejected' | 'provider_error';

export type MailSide = 'imap' | 'smtp';

/**
 * A failure of a mail server or of the connection to it.
 * `detail` may be shown to callers: it holds no password and no user name.
 * `temporary` says that the same command may work later.
 */
export class MailError extends Error {
  readonly code: MailErrorCode;
  readonly side: MailSide;
  readonly temporary: boolean;
  readonly detail: string;
  /** the server responded NO or BAD: the connection is still open */
  readonly refused: boolean;
  /** the command that was refused */
  readonly command: string | undefined;
  /** the server sent more than is read of any: the connection was closed */
  readonly flooded: boolean;
  constructor(
    code: MailErrorCode,
    side: MailSide,
    detail: string,
    options: { temporary?: boolean; refused?: boolean; command?: string; flooded?: boolean; cause?: unknown } = {},
  ) {
    super(`${code} (${side})`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'MailError';
    this.code = code;
    this.side = side;
    this.detail = detail;
    this.refused = options.refused ?? false;
    this.command = options.command;
    this.flooded = options.flooded ?? false;
    this.temporary = options.temporary ?? code === 'provider_error';
  }
}

/** The folder that the command names does not exist. */
export class FolderMissing extends MailError {
  constructor(cause?: unknown) {
    super('provider_error', 'imap', 'the folder does not exist', { temporary: false, refused: true, cause });
    this.name = 'FolderMissing';
  }
}

/** A folder with that name already exists. */
export class FolderExists extends MailError {
  constructor(cause?: unknown) {
    super('provider_rejected', 'imap', 'a folder with this name already exists', { refused: true, cause });
    this.name = 'FolderExists';
  }
}

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
  LiteralTooLarge: 'the response was too large',
  LineTooLarge: 'the response was too large',
  ResponseTooLarge: 'the response was too large',
  TooManyTokens: 'the response was too large',
  DownloadOverflow: 'the response was too large',
  TooManyResponses: 'the response was too large',
  EPROTOCOL: 'the response was not understood',
  ETLS: 'TLS failed',
};

/** Codes of Node and OpenSSL for a TLS handshake or a certificate that failed. */
const TLS_CODE = /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO$|HOSTNAME_MISMATCH|STARTTLS)/;

/** Those that the caller can correct. */
const TLS_REASONS: Record<string, string> = {
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port: use encryption STARTTLS',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host name',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the issuer of the certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the issuer of the certificate is not trusted',
};

/** Why a server could not be reached: a short reason built from codes, never from text that a server chose. */
export function reasonOf(cause: unknown): string {
  const error = (cause ?? {}) as { name?: string; code?: string; originalCode?: string; tlsFailed?: boolean };
  if (error.name === 'OutboundRefused') return 'the address is not allowed';
  if (error.name === 'OutboundUnresolved') return 'unknown host';
  // nodemailer replaces the system's code by its own
  const code = error.originalCode ?? error.code ?? '';
  if (REASONS[code]) return REASONS[code];
  if (TLS_REASONS[code]) return `TLS failed: ${TLS_REASONS[code]} (${code})`;
  if (error.tlsFailed || TLS_CODE.test(code)) return `TLS failed (${code || 'no TLS'})`;
  return /^\w{1,40}$/.test(code) ? code : 'connection closed';
}
