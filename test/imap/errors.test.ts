import { expect, it } from '@jest/globals';
import { ENCRYPTIONS, type Encryption } from '../../src/contract/account.ts';
import { loginErrorOf } from '../../src/imap/errors.ts';
import { refusedAsLimit } from '../../src/imap/response-codes.ts';
import { reasonOf } from '../../src/mail-wire/mail-error.ts';
import { NO_LOGIN, smtpErrorOf } from '../../src/smtp/errors.ts';

const login = (encryption: Encryption) => ({ host: 'h', port: 1, user: 'u', password: 'p', encryption });
const imapDetail = (cause: object, encryption: Encryption, capabilities: string[] = []) =>
  loginErrorOf(cause, login(encryption), new Map(capabilities.map((name) => [name, true]))).detail;

it.each([
  ['the server demands TLS', imapDetail({ serverResponseCode: 'PRIVACYREQUIRED' }, 'NONE')],
  ['no login without TLS', imapDetail({ message: 'Login is disabled' }, 'NONE', ['STARTTLS'])],
  ['no TLS on the port', imapDetail({ code: 'CONNECT_TIMEOUT' }, 'SSL')],
  ['no greeting on the port', imapDetail({ code: 'GREETING_TIMEOUT' }, 'NONE')],
  ['another protocol on the port', reasonOf({ code: 'ERR_SSL_WRONG_VERSION_NUMBER' })],
  ['no login with this encryption', smtpErrorOf({ code: NO_LOGIN }, login('NONE')).detail],
])('the encryption that an error recommends is written as the API writes it: %s', (_, detail) => {
  const named = detail.match(/\b(ssl|starttls)\b/gi) ?? [];
  expect(named).not.toEqual([]);
  expect(ENCRYPTIONS).toEqual(expect.arrayContaining(named));
});

it.each([
  ['ALERT', 'Your account is not enabled for IMAP use. Please visit your Gmail settings page', 'invalid_credentials'],
  ['ALERT', 'IMAP access is disabled for your domain. Please contact your domain administrator', 'invalid_credentials'],
  ['ALERT', 'Application-specific password required (Failure)', 'invalid_credentials'],
  ['ALERT', 'Please log in via your web browser (Failure)', 'invalid_credentials'],
  ['WEBALERT', 'Web login required. (Failure)', 'invalid_credentials'],
  ['ALERT', 'Too many simultaneous connections. (Failure)', 'provider_error'],
  ['ALERT', 'Account exceeded command or bandwidth limits. (Failure)', 'provider_error'],
  ['OVERQUOTA', 'Account exceeded command or bandwidth limits. (Failure)', 'provider_error'],
])('a login that Gmail refuses with [%s] %s fails with %s', (serverResponseCode, responseText, code) => {
  const cause = { authenticationFailed: true, responseStatus: 'NO', serverResponseCode, responseText };
  const error = loginErrorOf(cause, login('SSL'), new Map());
  const command = code === 'invalid_credentials' ? 'the login' : 'the IMAP login';
  expect(error).toMatchObject({ code, detail: `the IMAP server refused ${command}: ${responseText}` });
  expect(refusedAsLimit(error)).toBe(responseText.startsWith('Too many'));
});
