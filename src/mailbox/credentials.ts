import type { SealedAt, Secrets } from '../secrets.ts';

/** The passwords of an account, as they lie sealed in `accounts.credentials`. */
export interface Credentials {
  imapPassword: string;
  smtpPassword: string;
}

const place = (accountId: string): SealedAt => ({ table: 'accounts', column: 'credentials', id: accountId });

/** Seals the passwords for the account's row. */
export function sealCredentials(secrets: Secrets, accountId: string, credentials: Credentials): Buffer {
  const { imapPassword, smtpPassword } = credentials;
  return secrets.seal(place(accountId), JSON.stringify({ imap_password: imapPassword, smtp_password: smtpPassword }));
}

/** Opens what `sealCredentials` gave for the same account. Throws SealError. */
export function openCredentials(secrets: Secrets, accountId: string, sealed: Buffer): Credentials {
  const stored = JSON.parse(secrets.open(place(accountId), sealed)) as { imap_password: string; smtp_password: string };
  return { imapPassword: stored.imap_password, smtpPassword: stored.smtp_password };
}
