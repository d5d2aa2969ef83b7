import type { ServerLogin } from '../contract/account.ts';
import { MailError, type MailSide } from '../mail-wire/mail-error.ts';
import type { Tokens } from '../oauth/tokens.ts';
import type { Secrets } from '../security/secrets.ts';
import { openCredentials, type SyncSettings } from './settings.ts';

export interface LoginSources {
  secrets: Secrets;
  tokens: Tokens;
}

/**
 * What an account logs in with on one side: its password, or an access token of the moment. Ask again for each new connection.
 * @throws CredentialsUnreadable; the errors of `Tokens.current`
 */
export async function loginOf(
  { secrets, tokens }: LoginSources,
  accountId: string,
  settings: SyncSettings,
  side: MailSide,
): Promise<ServerLogin> {
  const credentials = openCredentials(secrets, accountId, settings.credentials);
  const password = side === 'imap' ? credentials.imapPassword : credentials.smtpPassword;
  if (password !== undefined) return { ...settings[side], password };
  const { value, ...token } = await tokens.current(accountId, side);
  return { ...settings[side], password: value, token };
}

/** Runs what logs in with `login`; a refused token is not used again. */
export async function withLogin<T>(
  { tokens }: Pick<LoginSources, 'tokens'>,
  accountId: string,
  login: ServerLogin,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isRefused = error instanceof MailError && error.code === 'invalid_credentials';
    if (isRefused && login.token) await tokens.refused(accountId, login.password);
    throw error;
  }
}

/**
 * Tells whether a failure only shows that the server ends sessions with their token: the connection was cut when the token was due
 * to be replaced. The mailbox did not fail. True once for each token: a server that ends further connections with the
 * same one fails.
 */
export function createTokenEnds(): (token: ServerLogin['token'], error: unknown) => boolean {
  let last: number | undefined;
  return (token, error) => {
    if (!isTokenEnd(token, error)) return false;
    const isFirst = token?.expiresAt?.getTime() !== last;
    last = token?.expiresAt?.getTime();
    return isFirst;
  };
}

/** Whether a connection was cut when its token was due to be replaced. */
export function isTokenEnd(token: ServerLogin['token'], error: unknown): boolean {
  if (!token || !(error instanceof MailError) || error.code !== 'provider_error' || error.refused) return false;
  const due = token.renewAt ?? token.expiresAt;
  return due !== null && Date.now() >= due.getTime();
}
