import { DOWNLOAD_LINK_SECONDS, type DownloadLink } from '../../contract/email.ts';
import { ApiError } from '../../contract/errors.ts';
import type { Signer } from './cursor.ts';

/*
 * Links that download a file without an API key, for a browser or another program: for one file and ten minutes, until
 * the key that made them or the account ends. They are signed, not stored: who has one can use it as often.
 */

/** The file of a link; `attachmentId` null: the raw message. */
export interface LinkedFile {
  accountId: string;
  emailId: string;
  attachmentId: string | null;
}

export interface DownloadLinks {
  write(file: LinkedFile, apiKeyId: string): DownloadLink;
  /** @throws ApiError not_found unless `write` made the token less than its lifetime ago */
  read(token: string): LinkedFile & { apiKeyId: string };
}

const PURPOSE = 'download';

/** Creates links signed by `signer`: base64url of the signature, then of the ids and the end in ms. */
export function createDownloadLinks(signer: Signer, publicUrl: string, now = () => Date.now()): DownloadLinks {
  return {
    write({ accountId, emailId, attachmentId }, apiKeyId) {
      const endsAt = now() + DOWNLOAD_LINK_SECONDS * 1000;
      const text = JSON.stringify([accountId, emailId, attachmentId, apiKeyId, endsAt]);
      const token = `${signer.sign(PURPOSE, text).toString('base64url')}.${Buffer.from(text).toString('base64url')}`;
      return { object: 'DownloadLink', url: `${publicUrl}/d/${token}`, expires_at: new Date(endsAt).toISOString() };
    },
    read(token) {
      const [signature = '', encoded = ''] = token.split('.');
      const text = Buffer.from(encoded, 'base64url').toString();
      if (!signer.isSigned(PURPOSE, text, Buffer.from(signature, 'base64url'))) throw ended();
      const [accountId, emailId, attachmentId, apiKeyId, endsAt] = JSON.parse(text) as [
        ...[string, string, string | null, string, number],
      ];
      if (endsAt <= now()) throw ended();
      return { accountId, emailId, attachmentId, apiKeyId };
    },
  };
}

/** The error for a link that is not valid, or not any longer. */
export const ended = () => new ApiError('not_found', 'this link is invalid or has ended');
