/** What a mail server's failure means to the caller; the HTTP answers of the contract follow from it. */
export type MailErrorCode = 'invalid_credentials' | 'provider_rejected' | 'provider_error';

export type MailSide = 'imap' | 'smtp';

/**
 * A failure of a mail server or of the way to it.
 * `detail` may be shown to callers: it holds no password and no user name.
 * `temporary` says that the same step may work later.
 */
export class MailError extends Error {
  readonly code: MailErrorCode;
  readonly side: MailSide;
  readonly temporary: boolean;
  readonly detail: string;
  /** the server answered NO or BAD: the connection still stands */
  readonly refused: boolean;
  constructor(
    code: MailErrorCode,
    side: MailSide,
    detail: string,
    options: { temporary?: boolean; refused?: boolean; cause?: unknown } = {},
  ) {
    super(`${code} (${side})`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'MailError';
    this.code = code;
    this.side = side;
    this.detail = detail;
    this.refused = options.refused ?? false;
    this.temporary = options.temporary ?? code === 'provider_error';
  }
}

/** A folder that the command needs does not exist, or no longer. */
export class FolderMissing extends MailError {
  constructor(cause?: unknown) {
    super('provider_error', 'imap', 'the folder does not exist', { temporary: false, refused: true, cause });
    this.name = 'FolderMissing';
  }
}

/** The name for a folder is taken. */
export class FolderExists extends MailError {
  constructor(cause?: unknown) {
    super('provider_rejected', 'imap', 'there is a folder of this name already', { refused: true, cause });
    this.name = 'FolderExists';
  }
}

/** What a server said, cut to one short line, with the given secrets taken out wherever they stand in it. */
export function safeAnswer(text: string | undefined, secrets: string[]): string {
  let answer = (text ?? '').replace(/[\p{Cc}\s]+/gu, ' ').trim();
  for (const secret of secrets) {
    if (!secret) continue;
    for (const form of [secret, Buffer.from(secret).toString('base64')]) answer = answer.split(form).join('…');
  }
  return answer.replace(/\S+@\S+/g, '…').slice(0, 200);
}
