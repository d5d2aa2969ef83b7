import { describe, expect, it } from '@jest/globals';
import {
  checkTexts,
  discoveredSide,
  encryptionOf,
  givenSide,
  notFound,
  type StoredSettings,
  storedSide,
} from '../../src/activities/connect-settings.ts';

const block = { host: 'mail.example.com', port: 993 };
const stored: StoredSettings = {
  userId: 'ann@example.com',
  imap: { host: 'imap.example.com', port: 993, user: 'ann', encryption: 'SSL' },
  smtp: { host: 'smtp.example.com', port: 587, user: 'ann', encryption: 'STARTTLS' },
  credentials: { imapPassword: 'old', smtpPassword: 'old' },
};
const ownSmtp = { ...stored, credentials: { imapPassword: 'old', smtpPassword: 'relay' } };

describe('encryption', () => {
  it.each([
    ['ssl', 143, 'SSL'],
    ['SSL', 143, 'SSL'],
    ['Tls', 143, 'SSL'],
    ['STARTTLS', 993, 'STARTTLS'],
    ['none', 993, 'NONE'],
    ['default', 993, 'SSL'],
    ['DEFAULT', 465, 'SSL'],
    ['default', 143, 'STARTTLS'],
    ['default', 587, 'STARTTLS'],
    ['default', 25, 'STARTTLS'],
    ['default', 10993, 'SSL'],
    [undefined, 143, 'STARTTLS'],
  ])('%s on port %i is %s', (given, port, encryption) => {
    expect(encryptionOf('imap', given, port)).toBe(encryption);
  });

  it.each(['', 'yes', 'toString', 'ssl '])('%j is refused by the name of the field', (given) => {
    expect(() => encryptionOf('smtp', given, 465)).toThrow(/credentials\.smtp\.encryption/);
  });
});

describe('a side that is given', () => {
  it('has the top-level user and password unless it has its own', () => {
    const top = { user: 'ann@example.com', password: 'secret' };
    expect(givenSide('imap', { ...top, imap: block })).toEqual({
      host: 'mail.example.com',
      port: 993,
      encryption: 'SSL',
      user: 'ann@example.com',
      password: 'secret',
    });
    const own = { ...top, imap: { ...block, user: 'u', password: 'p' } };
    expect(givenSide('imap', own)).toMatchObject({ user: 'u', password: 'p' });
  });

  it.each([
    ['abcd efgh ijkl mnop', 'imap.gmail.com', 'abcdefghijklmnop'],
    [' abcd\u00a0efgh ijkl\u2003mnop ', 'IMAP.gmail.com', 'abcdefghijklmnop'],
    ['abcd-efgh-ijkl-mnop ', 'imap.mail.me.com', 'abcd-efgh-ijkl-mnop'],
    ['correct horse, battery', 'imap.gmail.com', 'correct horse, battery'],
    ['abcd efgh ijkl mnop', 'imap.gmx.net', 'abcd efgh ijkl mnop'],
    ['abcd efgh ijkl mnop', 'mail.example.com', 'abcd efgh ijkl mnop'],
  ])('logs in with %j at %s as %j: blanks of app passwords are no part of them', (password, host, expected) => {
    const credentials = { user: 'ann', password };
    expect(givenSide('imap', { ...credentials, imap: { host, port: 993 } })).toMatchObject({ password: expected });
    expect(discoveredSide('imap', credentials, { host, port: 993, encryption: 'SSL' })).toMatchObject({
      password: expected,
    });
    const saved = { ...stored, imap: { ...stored.imap, host } };
    expect(storedSide('imap', credentials, saved)).toMatchObject({ password: expected });
  });

  it('keeps stored values on a reconnect', () => {
    const same = { ...block, host: 'IMAP.example.com' };
    expect(givenSide('imap', { imap: same }, stored)).toMatchObject({ user: 'ann', password: 'old' });
    const relay = { host: 'smtp.example.com', port: 587, encryption: 'starttls' };
    expect(givenSide('smtp', { smtp: relay }, ownSmtp)).toMatchObject({ user: 'ann', password: 'relay' });
    expect(givenSide('smtp', { smtp: { ...relay, encryption: 'ssl' } }, ownSmtp)).toMatchObject({ password: 'relay' });
  });

  const imap = { host: 'imap.example.com', port: 993 };
  const smtp = { host: 'smtp.example.com', port: 587 };
  it.each([
    ['imap', 'another host', { imap: { ...imap, host: 'evil.example.com' } }],
    ['smtp', 'another host', { smtp: { ...smtp, host: 'evil.example.com' } }],
    ['smtp', 'a host that begins with the same name', { smtp: { ...smtp, host: 'smtp.example.com.evil.example' } }],
    ['imap', 'another port', { imap: { ...imap, port: 10993, encryption: 'ssl' } }],
    ['smtp', 'another port', { smtp: { ...smtp, port: 25 } }],
    ['imap', 'TLS that begins later', { imap: { ...imap, encryption: 'starttls' } }],
    ['imap', 'no TLS', { imap: { ...imap, encryption: 'none' } }],
    ['smtp', 'no TLS', { smtp: { ...smtp, encryption: 'NONE' } }],
    ['smtp', 'no TLS, for another user', { smtp: { ...smtp, user: 'bob', encryption: 'None' } }],
  ] as const)('has no stored %s password for %s', (side, _, credentials) => {
    expect(() => givenSide(side, credentials, ownSmtp)).toThrow(
      new RegExp(`: credentials\\.${side}\\.password is needed`),
    );
    expect(givenSide(side, { ...credentials, password: 'new' }, ownSmtp)).toMatchObject({ password: 'new' });
  });

  it.each([
    [{ imap: block, password: 'x' }, /credentials\.user/],
    [{ imap: block, user: 'x' }, /credentials\.password/],
  ])('names what is missing (%#)', (credentials, message) => {
    expect(() => givenSide('imap', credentials)).toThrow(message);
  });

  it('is undefined when it was left out', () => {
    expect(givenSide('smtp', { user: 'a', password: 'b', imap: block })).toBeUndefined();
  });
});

it('uses the stored grant of an app for the stored user only', () => {
  const oauth2 = { app_id: 'oap_1', grant: 'client_credentials' as const };
  const ofApp = { ...stored, credentials: { imapPassword: undefined, smtpPassword: undefined, oauth2 } };
  const smtp = { host: 'smtp.example.com', port: 587 };
  expect(givenSide('smtp', { smtp: { ...smtp, user: 'ANN' } }, ofApp)).toMatchObject({ user: 'ANN', oauth2 });
  expect(() => givenSide('smtp', { smtp: { ...smtp, user: 'ceo' } }, ofApp)).toThrow(/credentials\.smtp\.user/);
  expect(givenSide('smtp', { oauth2, smtp: { ...smtp, user: 'ceo' } }, ofApp)).toMatchObject({ user: 'ceo' });
});

describe('a side that is stored', () => {
  it('takes a new top-level password', () => {
    expect(storedSide('imap', { password: 'new' }, stored)).toEqual({ ...stored.imap, password: 'new' });
    expect(storedSide('smtp', { password: 'new' }, stored)).toEqual({ ...stored.smtp, password: 'new' });
  });

  it('keeps a separate SMTP password', () => {
    expect(storedSide('smtp', { password: 'new' }, ownSmtp)).toMatchObject({ password: 'relay' });
    expect(storedSide('imap', { password: 'new' }, ownSmtp)).toMatchObject({ password: 'new' });
  });

  it('keeps the stored password when none is given', () => {
    expect(storedSide('imap', {}, stored)).toMatchObject({ password: 'old' });
  });

  it.each(['ann', 'ANN', 'ann@example.com', 'Ann@Example.com'])('knows %s as its own login', (user) => {
    expect(storedSide('imap', { user }, stored).user).toBe('ann');
  });

  it('is another mailbox under another login', () => {
    expect(storedSide('imap', { user: 'bob@example.com' }, stored).user).toBe('bob@example.com');
  });

  it('needs a password when the stored ones cannot be decrypted', () => {
    expect(() => storedSide('imap', {}, { ...stored, credentials: undefined })).toThrow(/credentials\.password/);
  });
});

it('logs in to a discovered server as the provider says', () => {
  const found = { host: 'h', port: 993, encryption: 'SSL' } as const;
  const credentials = { user: 'ann@example.com', password: 'p' };
  expect(discoveredSide('imap', credentials, found).user).toBe('ann@example.com');
  expect(discoveredSide('imap', credentials, { ...found, user: 'ann' }).user).toBe('ann');
  expect(() => discoveredSide('imap', { user: 'ann@example.com' }, found)).toThrow(/credentials\.password/);
});

it('names the blocks that were not found', () => {
  expect(notFound(['imap', 'smtp'])).toMatchObject({ code: 'invalid_parameters' });
  expect(notFound(['smtp']).detail).toContain('credentials.smtp');
  expect(notFound(['smtp']).detail).not.toContain('credentials.imap');
});

describe('line breaks and NUL', () => {
  const fields = {
    name: { name: 'a\nb', credentials: {} },
    'credentials.user': { credentials: { user: 'a\r' } },
    'credentials.password': { credentials: { password: 'a\0b' } },
    'credentials.imap.user': { credentials: { imap: { ...block, user: '\n' } } },
    'credentials.smtp.password': { credentials: { smtp: { ...block, password: '\r\n' } } },
    'credentials.smtp.host': { credentials: { smtp: { ...block, host: 'a\nb' } } },
  };
  it.each(Object.entries(fields))('are refused in %s', (field, intent) => {
    expect(() => checkTexts({ provider: 'imap', ...intent })).toThrow(field);
  });

  it('are all that is refused', () => {
    expect(() => checkTexts({ provider: 'imap', credentials: { user: 'ä ü', password: ' p 🔑 ' } })).not.toThrow();
  });
});
