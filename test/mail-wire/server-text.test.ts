import { describe, expect, it } from '@jest/globals';
import { loginErrorOf } from '../../src/imap/errors.ts';
import { smtpErrorOf } from '../../src/smtp/errors.ts';
import { withoutLogin } from '../../src/mail-wire/server-text.ts';

const login = { user: 'ann.smith@example.test', password: 'Qx7+c/nary & "w0rd' };
const base64 = (text: string) => Buffer.from(text).toString('base64');
const base64url = (text: string) => Buffer.from(text).toString('base64url');
const hex = (text: string) => Buffer.from(text).toString('hex');
const { user, password } = login;
const plain = `\0${user}\0${password}`;
const xoauth2 = `user=${user}\x01auth=Bearer ${password}\x01\x01`;

const ECHOES: Record<string, string> = {
  password,
  'password in capitals': password.toUpperCase(),
  'password without spaces': password.replaceAll(' ', ''),
  'password with wide spaces': password.replaceAll(' ', ' \t '),
  user,
  'user in capitals': user.toUpperCase(),
  'local part': 'ann.smith',
  PLAIN: base64(plain),
  'PLAIN with an identity': base64(`${user}${plain}`),
  'PLAIN for URLs': base64url(plain),
  'PLAIN without padding': base64(plain).replaceAll('=', ''),
  'PLAIN after a quote': `"AUTH PLAIN ${base64(plain)}"`,
  'PLAIN after an equals sign': `response=${base64(plain)}`,
  'PLAIN after other characters': `x${base64(plain)}`,
  'PLAIN in capitals': base64(plain).toUpperCase(),
  'PLAIN in lower case': base64(plain).toLowerCase(),
  'PLAIN with the escapes of URLs': encodeURIComponent(base64(plain)),
  'PLAIN in pieces': base64(plain).replace(/(.{4})/g, '$1 '),
  'PLAIN in lines': base64(plain).replace(/(.{20})/g, '$1\r\n '),
  'PLAIN twice': base64(base64(plain)),
  'LOGIN user': base64(user),
  'LOGIN password': base64(password),
  'a part with bytes before': base64(`..${password}`),
  'a part with bytes after': base64(`.${password}...`),
  XOAUTH2: base64(xoauth2),
  'CRAM-MD5': base64(`${user} 0123456789abcdef0123456789abcdef`),
  'CRAM-MD5 digest': '0123456789abcdef0123456789abcdef',
  hex: hex(password),
  'hex in capitals, with colons': hex(plain).toUpperCase().replace(/(..)/g, '$1:'),
  URL: encodeURIComponent(password),
  form: new URLSearchParams({ password }).toString(),
  HTML: password.replace('&', '&amp;').replace('"', '&quot;'),
  'HTML, by number': password.replace('&', '&#38;').replace('"', '&#x22;'),
  'quoted string': password.replace('"', '\\"'),
  JSON: JSON.stringify({ password }),
  'quoted-printable': password.replace('+', '=2B').replace('"', '=22'),
  backwards: [...password].reverse().join(''),
  'in pieces': [...password].join(' '),
};

/** No text may contain the login, in any form that this test can decode. */
function expectNothingOf(text: string): void {
  const read = [text, text.replace(/\s/g, '')].flatMap((each) => [
    each,
    ...(each.match(/[A-Za-z0-9+/_-]{4,}/g) ?? []).map((run) => Buffer.from(run, 'base64').toString('latin1')),
  ]);
  for (const each of read) expect(each.toLowerCase()).not.toMatch(/c\/nary|w0rd|ann\.smith|yran\/c|dr0w/);
  for (const piece of [base64(plain), base64(password), hex(password)]) {
    for (let at = 0; at + 8 <= piece.length; at += 4) {
      expect(text.toLowerCase()).not.toContain(piece.slice(at, at + 8).toLowerCase());
    }
  }
}

describe('the text of a mail server', () => {
  it.each(Object.entries(ECHOES))('is shown without the login: %s', (_, echo) => {
    for (const text of [echo, `5.7.8 no: ${echo}`, `5.7.8 ${echo} is wrong`, `5.7.8 <${echo}>, sorry`]) {
      expectNothingOf(withoutLogin(text, login));
      const cause = { authenticationFailed: true, responseStatus: 'NO', responseText: text };
      expectNothingOf(loginErrorOf(cause, { ...login, host: 'h', port: 1, encryption: 'SSL' }, new Map()).detail);
      const bye = { code: 'ClosedAfterConnectTLS', reason: text };
      expectNothingOf(loginErrorOf(bye, { ...login, host: 'h', port: 1, encryption: 'SSL' }, new Map()).detail);
      const offered = new Map([[`AUTH=${text}`, true]]);
      const disabled = { message: 'Login is disabled' };
      expectNothingOf(loginErrorOf(disabled, { ...login, host: 'h', port: 1, encryption: 'SSL' }, offered).detail);
      expectNothingOf(smtpErrorOf({ code: 'EAUTH', responseCode: 535, response: `535 ${text}` }, login).detail);
    }
  });

  it.each([
    '5.7.8 Username and Password not accepted. Learn more at https://support.google.com/mail/?p=BadCredentials',
    'Application-specific password required (Failure)',
    'LOGIN failed, mailbox is locked until 2026-11-22T06:00:00Z',
    'Too many simultaneous connections. (Failure)',
  ])('stays as it is otherwise: %s', (text) => {
    expect(withoutLogin(text, login)).toBe(text);
    expect(withoutLogin(text, { user: 'info', password: 'hunter2!' })).toBe(text);
  });

  it('hides a short password and a short user name as words only', () => {
    const short = { user: 'me', password: 'abc' };
    expect(withoutLogin('the name me and abc in alphabet abcdef', short)).toBe('the name … and … in alphabet abcdef');
    expect(withoutLogin(`no ${base64('\0me\0abc')}`, short)).toBe('no …');
  });

  it('is one short line without addresses, however long it was', () => {
    expect(withoutLogin('one\r\ntwo\0 <bob@example.test>', login)).toBe('one two …');
    expect(withoutLogin('word '.repeat(100_000), login)).toHaveLength(200);
    const long = `${'x'.repeat(190)} ${base64(plain)}`;
    expectNothingOf(withoutLogin(long, login));
    expectNothingOf(withoutLogin('A'.repeat(3_990) + base64(plain), login));
    expect(withoutLogin(undefined, login)).toBe('');
  });
});
