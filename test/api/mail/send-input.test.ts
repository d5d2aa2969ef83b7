import { describe, expect, test } from '@jest/globals';
import {
  base64Length,
  checkFiles,
  checkSendInput,
  checkTrackable,
  DEFAULT_SEND_LIMITS,
  type SendLimits,
} from '../../../src/api/send-input.ts';
import { ApiError } from '../../../src/contract/errors.ts';
import { newId } from '../../../src/new-id.ts';
import type { SendInput } from '../../../src/contract/sending.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';

const TO = [{ email: 'reader@example.test' }];

/** The detail of the error; null when the input is accepted. */
function refusal(
  input: SendInput,
  mode: 'send' | 'draft' | 'update' = 'draft',
  limits: SendLimits = DEFAULT_SEND_LIMITS,
): string | null {
  try {
    checkSendInput(input, limits, mode);
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    expect((error as ApiError).code).toBe('invalid_parameters');
    return (error as ApiError).detail;
  }
}

describe('CR, LF and NUL are refused wherever a header is made of it', () => {
  const fields: [string, (evil: string) => SendInput][] = [
    ['subject', (evil) => ({ subject: evil })],
    ['reply_to_message_id', (evil) => ({ reply_to_message_id: evil })],
    ['from.display_name', (evil) => ({ from: { display_name: evil } })],
    ['from.email', (evil) => ({ from: { email: `"${evil}"@x.test` } })],
    ...(['to', 'cc', 'bcc', 'reply_to'] as const).flatMap((field): [string, (evil: string) => SendInput][] => [
      [`${field}.1.display_name`, (evil) => ({ [field]: [...TO, { email: 'a@x.test', display_name: evil }] })],
      [`${field}.0.email`, (evil) => ({ [field]: [{ email: `"${evil}"@x.test` }] })],
    ]),
    ['custom_headers.0.name', (evil) => ({ custom_headers: [{ name: `X-${evil}`, value: 'v' }] })],
    ['custom_headers.0.value', (evil) => ({ custom_headers: [{ name: 'X-A', value: evil }] })],
    ['custom_headers.0.value', (evil) => ({ custom_headers: [{ name: 'Reply-To', value: `a@x.test${evil}` }] })],
    ['attachments.0.filename', (evil) => ({ attachments: [{ content: '', filename: evil }] })],
    ['attachments.0.content_type', (evil) => ({ attachments: [{ content: '', content_type: `text/plain${evil}` }] })],
    ['attachments.0.cid', (evil) => ({ attachments: [{ content: '', cid: evil }] })],
    ['tracking_options.custom_domain', (evil) => ({ tracking_options: { custom_domain: `x.test${evil}` } })],
  ];
  test.each(
    fields.flatMap(([field, make]) =>
      ['\r', '\n', '\0', '\r\nBcc: b@x.test'].map((evil) => [field, evil, make(evil)] as const),
    ),
  )('%s with %j', (field, _evil, input) => {
    expect(refusal(input)).toBe(`${field} contains a line break or NUL`);
  });
});

test.each<[string, SendInput]>([
  ['from.email', { from: { email: '"a<b"@x.test' } }],
  ['to.0.email', { to: [{ email: '"a>b"@x.test' }] }],
  ['reply_to.0.email', { reply_to: [{ email: '"<>"@x.test' }] }],
])('%s with an angle bracket, which would be another address, is refused', (field, input) => {
  expect(refusal(input)).toBe(`${field} contains < or >`);
});

test.each(['', ' ', '<>'])('a reply to %j is refused', (reference) => {
  expect(refusal({ reply_to_message_id: reference })).toBe('reply_to_message_id is empty');
});

test.each<[string, SendInput, 'draft' | 'update', string | null]>([
  ['a forward', { forward_message_id: '<a@x.test>' }, 'draft', null],
  ['a forward as a file', { forward_message_id: '<a@x.test>', forward_as: 'attachment' }, 'draft', null],
  ['a forward of nothing', { forward_message_id: '<>' }, 'draft', 'forward_message_id is empty'],
  ['a way to forward nothing', { forward_as: 'inline' }, 'draft', 'forward_as requires forward_message_id'],
  [
    'a forward that is a reply',
    { forward_message_id: '<a@x.test>', reply_to_message_id: '<b@x.test>' },
    'draft',
    'an email is a reply or forwards another: give reply_to_message_id or forward_message_id',
  ],
  [
    'a forward in an update of a draft',
    { forward_message_id: '<a@x.test>' },
    'update',
    'forward_message_id is for new drafts: this one keeps what it forwards',
  ],
])('%s', (_name, input, mode, expected) => {
  expect(refusal(input, mode)).toBe(expected);
});

test('a forward needs nothing but a recipient to be sent', () => {
  expect(refusal({ to: TO, forward_message_id: '<a@x.test>' }, 'send')).toBeNull();
});

describe('limits', () => {
  const people = (count: number) => Array.from({ length: count }, (_, index) => ({ email: `r${index}@x.test` }));
  test.each<[string, SendInput, string | null]>([
    ['998 characters of subject', { subject: 'x'.repeat(998) }, null],
    ['999', { subject: 'x'.repeat(999) }, 'subject is longer than 998 characters'],
    ['a million', { subject: 'x'.repeat(1_000_000) }, 'subject is longer than 998 characters'],
    ['500 recipients', { to: people(200), cc: people(200), bcc: people(100) }, null],
    ['501', { to: people(200), cc: people(200), bcc: people(101) }, 'to, cc and bcc contain more than 500 recipients'],
    ['501 in reply_to', { reply_to: people(501) }, 'reply_to contains more than 500 addresses'],
    [
      'a display name of 10,000',
      { to: [{ email: 'a@x.test', display_name: 'x'.repeat(10_000) }] },
      'to.0.display_name is longer than 998 characters',
    ],
    ['100 files', { attachments: Array.from({ length: 100 }, () => ({ content: 'QUJD' })) }, null],
    [
      '101 files',
      { attachments: Array.from({ length: 101 }, () => ({ content: 'QUJD' })) },
      'attachments has more than 100 items',
    ],
    [
      '101 headers',
      { custom_headers: Array.from({ length: 101 }, () => ({ name: 'X-A', value: '1' })) },
      'custom_headers has more than 100 items',
    ],
    [
      'a long header',
      { custom_headers: [{ name: 'X-A', value: 'x'.repeat(16_385) }] },
      'custom_headers.0.value is longer than 16384 characters',
    ],
    [
      'a long file name',
      { attachments: [{ content: '', filename: 'x'.repeat(256) }] },
      'attachments.0.filename is longer than 255 characters',
    ],
  ])('%s', (_name, input, expected) => {
    expect(refusal(input)).toBe(expected);
  });

  test('files count decoded, and together', () => {
    const limits = { ...DEFAULT_SEND_LIMITS, attachmentBytes: 10 };
    const five = { content: Buffer.alloc(5).toString('base64') };
    expect(refusal({ attachments: [five, five] }, 'draft', limits)).toBeNull();
    expect(refusal({ attachments: [five, five, { content: 'QQ==' }] }, 'draft', limits)).toBe(
      'attachments are larger than 10 bytes',
    );
  });

  test.each<[object, string | null]>([
    [{ email_id: newId('email'), attachment_id: newId('attachment') }, null],
    [{}, 'attachments.0 must have one of content, email_id with attachment_id, and upload_id'],
    [
      { content: 'QQ==', email_id: newId('email') },
      'attachments.0 must have one of content, email_id with attachment_id, and upload_id',
    ],
    [{ email_id: newId('email') }, 'attachments.0 must have the ids of an email and of one of its attachments'],
    [
      { email_id: newId('attachment'), attachment_id: newId('email') },
      'attachments.0 must have the ids of an email and of one of its attachments',
    ],
  ])('the attachment %j', (attachment, expected) => {
    expect(refusal({ attachments: [attachment] })).toBe(expected);
  });

  test('files of a forwarded email count with the others', () => {
    const limits = { ...DEFAULT_SEND_LIMITS, attachments: 2, attachmentBytes: 10 };
    const five = { content: Buffer.alloc(5).toString('base64') };
    const check = (count: number, bytes: number) => () => checkFiles([five], { count, bytes }, limits);
    expect(check(1, 5)).not.toThrow();
    expect(check(2, 5)).toThrow(expect.objectContaining({ code: 'invalid_parameters' }));
    expect(check(1, 6)).toThrow(expect.objectContaining({ code: 'invalid_parameters' }));
  });
});

describe('custom headers', () => {
  test.each<[string, string, string | null]>([
    ['X-Any', 'Größe', null],
    ['x-any.thing_else', '', null],
    ['List-Unsubscribe', '<https://x.test/u>, <mailto:u@x.test>', null],
    ['list-unsubscribe-post', 'List-Unsubscribe=One-Click', null],
    ['Auto-Submitted', 'no', null],
    ['Auto-Submitted', 'auto-replied', null],
    ['AUTO-SUBMITTED', ' Auto-Generated ', null],
    ['Auto-Submitted', 'auto-notified', null],
    ['Auto-Submitted', 'yes', 'custom_headers.0.value must be no, auto-replied, auto-generated or auto-notified'],
    ['Reply-To', 'Jörg <j@x.test>', null],
    ['Reply-To', 'jörg', 'custom_headers.0.value must contain an email address'],
    ['List-Unsubscribe', '<https://x.test/ü>', 'custom_headers.0.value must be in ASCII'],
    [
      'List-Unsubscribe',
      `<https://x.test/${'u'.repeat(900)}>`,
      'custom_headers.0.value contains a word of more than 800 characters',
    ],
    ...['X-', 'X', 'Subject', 'Bcc', 'From', 'Content-Type', 'List-Id', 'X A', 'X-A:', 'X-Ä', ' X-A', '', 'Xx-A'].map(
      (name): [string, string, string] => [name, 'v', 'custom_headers.0.name is not allowed'],
    ),
  ])('%j: %j', (name, value, expected) => {
    expect(refusal({ custom_headers: [{ name, value }] })).toBe(expected);
  });

  test('one that may stand once is refused the second time', () => {
    const header = { name: 'Reply-To', value: 'a@x.test' };
    expect(refusal({ custom_headers: [header, { ...header, name: 'reply-to' }] })).toBe(
      'custom_headers.1.name must be given once',
    );
    expect(
      refusal({
        custom_headers: [
          { name: 'X-A', value: '1' },
          { name: 'X-A', value: '2' },
        ],
      }),
    ).toBeNull();
  });
});

describe('attachments', () => {
  test.each<[string, boolean]>([
    ['text/plain', true],
    ['text/calendar; method=REQUEST; charset="utf-8"', true],
    ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', true],
    ['image/svg+xml;charset=utf-8', true],
    ['', true],
    ['pdf', false],
    ['text/', false],
    ['/plain', false],
    ['text/plain; ', false],
    ['text/plain; charset', false],
    ['text/plain, text/html', false],
    ['multipart/mixed', false],
    ['Multipart/Mixed', false],
    ['text/plaïn', false],
    [`text/plain${'; a=b'.repeat(48)};`, false],
  ])('content_type %j: %j', (type, isAllowed) => {
    const expected = isAllowed ? null : 'attachments.0.content_type is not a media type';
    expect(refusal({ attachments: [{ content: '', content_type: type }] })).toBe(expected);
  });

  test.each<[string, boolean]>([
    ['logo', true],
    ['<logo@x.test>', true],
    ['a b', false],
    ['ü', false],
    ['a<b', false],
    ['a>b', false],
  ])('cid %j: %j', (cid, isAllowed) => {
    const expected = isAllowed ? null : 'attachments.0.cid is not a Content-ID';
    expect(refusal({ attachments: [{ content: '', cid }] })).toBe(expected);
  });

  test('the one that is not base64 is named', () => {
    const good = { content: 'QUJD' };
    expect(refusal({ attachments: [good, good, good, { content: 'not base64!' }] })).toBe(
      'attachments.3.content is not base64',
    );
  });
});

describe('base64', () => {
  test.each<[string, number | null]>([
    ['', 0],
    ['QQ==', 1],
    ['QUI=', 2],
    ['QUJD', 3],
    ['QQ', 1],
    ['QUI', 2],
    ['+/+/', 3],
    ['Q', null],
    ['QUJDQ', null],
    ['QQ=', null],
    ['QUJD=', null],
    ['QUJD====', null],
    ['QQ==QUJD', null],
    ['Q=Q=', null],
    ['====', null],
    ['=', null],
    ['QR==', null],
    ['QUJ', null],
    ['QU JD', null],
    ['QUJD\n', null],
    ['-_-_', null],
    ['QUJ!', null],
    ['QUJé', null],
    ['QUJ\u0142', null],
    ['data:image/png;base64,QUJD', null],
  ])('%j stands for %j bytes', (text, expected) => {
    expect(base64Length(text)).toBe(expected);
  });

  test('whatever Buffer writes is read', () => {
    for (let length = 0; length < 50; length += 1) {
      const bytes = Buffer.alloc(length, 'ÿ>?~');
      expect(base64Length(bytes.toString('base64'))).toBe(length);
      expect(base64Length(bytes.toString('base64').replaceAll('=', ''))).toBe(length);
    }
  });

  test.each([0, 262_143, 262_144, 262_145, 700_000])('one wrong character at %i is found', (at) => {
    const text = Buffer.alloc(600_000, 7).toString('base64');
    for (const wrong of ['!', ' ', '=', 'é', '\u0141']) {
      expect(base64Length(text.slice(0, at) + wrong + text.slice(at + 1))).toBeNull();
    }
  });
});

describe('what is needed to send', () => {
  test.each<[SendInput, string | null]>([
    [{}, 'to, cc or bcc must contain a recipient'],
    [{ subject: 'x' }, 'to, cc or bcc must contain a recipient'],
    [{ to: [], subject: 'x' }, 'to, cc or bcc must contain a recipient'],
    [{ reply_to: TO, subject: 'x' }, 'to, cc or bcc must contain a recipient'],
    [{ to: TO }, 'one of html, plain_text, subject and attachments must have content'],
    [
      { to: TO, html: '', subject: '', attachments: [] },
      'one of html, plain_text, subject and attachments must have content',
    ],
    [{ to: TO, subject: 'x' }, null],
    [{ cc: TO, html: 'x' }, null],
    [{ bcc: TO, plain_text: 'x' }, null],
    [{ bcc: TO, attachments: [{ content: '' }] }, null],
    [{ to: TO, subject: 'x', tracking_options: { opens: true } }, 'tracking_options requires html'],
    [{ to: TO, plain_text: 'x', tracking_options: { links: true } }, 'tracking_options requires html'],
    [{ to: TO, html: 'x', tracking_options: { opens: true, links: true } }, null],
    [{ to: TO, subject: 'x', tracking_options: { opens: false, label: 'l' } }, null],
  ])('%j', (input, expected) => {
    expect(refusal(input, 'send')).toBe(expected);
    expect(refusal(input, 'draft')).toBeNull();
  });

  test('a draft is asked for HTML as it is to become', () => {
    expect(() => checkTrackable({ opens: true }, true)).not.toThrow();
    expect(() => checkTrackable({ opens: true }, false)).toThrow(ApiError);
    expect(() => checkTrackable(undefined, false)).not.toThrow();
  });
});

describe('custom domains', () => {
  test.each<[string, boolean]>([
    ['links.example.com', true],
    ['LINKS.example.com:8443', true],
    ['xn--mller-kva.example', true],
    ['localhost:3000', true],
    ['', false],
    ['https://links.example.com', false],
    ['links.example.com/path', false],
    ['user@links.example.com', false],
    ['links_x.example.com', false],
    ['-a.example.com', false],
    ['a..example.com', false],
    ['example.com.', false],
    ['10.0.0.1', false],
    ['127.1', false],
    ['2130706433', false],
    ['0x7f.1', false],
    ['0x7f000001', false],
    ['127.0.0.0x1', false],
    ['[::1]', false],
    ['::1', false],
    ['example.com:0', false],
    ['example.com:65536', false],
    ['example.com:', false],
    ['müller.example', false],
    [`${'a'.repeat(64)}.example`, false],
    [`${'a.'.repeat(200)}example`, false],
  ])('%j: %j', (domain, isAllowed) => {
    const detail = refusal({ tracking_options: { custom_domain: domain } });
    if (isAllowed) expect(detail).toBeNull();
    else expect(detail).toMatch(/^tracking_options\.custom_domain /);
  });
});

describe('time and memory stay flat', () => {
  const content = Buffer.alloc(26_214_400, 7).toString('base64');
  const small = Buffer.alloc(262_144, 7).toString('base64');
  test.each<[string, SendInput, string | null]>([
    ['an attachment of 25 MiB', { attachments: [{ content }] }, null],
    [
      'one that is broken at its end',
      { attachments: [{ content: `${content.slice(0, -1)}!` }] },
      'attachments.0.content is not base64',
    ],
    ['100 attachments', { attachments: Array.from({ length: 100 }, () => ({ content: small })) }, null],
    ['a body of 40 MiB', { html: 'x'.repeat(41_943_040) }, null],
    ['a subject of a million characters', { subject: '\n'.repeat(1_000_000) }, 'subject is longer than 998 characters'],
    [
      'a media type of hostile shape',
      { attachments: [{ content: '', content_type: `a/b${' '.repeat(240)}!` }] },
      'attachments.0.content_type is not a media type',
    ],
    [
      'a header of hostile shape',
      { custom_headers: [{ name: 'Reply-To', value: '@ '.repeat(8000) }] },
      'custom_headers.0.value must contain an email address',
    ],
  ])('%s', (_name, input, expected) => {
    refusal(input);
    const before = process.memoryUsage();
    expectCpuBelow(1_000, () => expect(refusal(input)).toBe(expected));
    const after = process.memoryUsage();
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(8 * 1024 * 1024);
  });
});
