import { describe, expect, test } from '@jest/globals';
import { cappedReferences, messageFromInput, mergeInput } from '../../src/mime/write/outgoing-message.ts';
import { file, GIVEN, outgoingMessage } from './outgoing-messages.ts';

const REPLY = { messageId: '<parent@x.test>', references: ['<root@x.test>', '<parent@x.test>', '<root@x.test>'] };

describe('a message from a SendInput', () => {
  test('leaves missing fields empty', () => {
    expect(messageFromInput({}, { ...GIVEN, reply: null })).toEqual({
      ...GIVEN,
      ...{ to: [], cc: [], bcc: [], replyTo: [], subject: '', html: null, plainText: null },
      ...{ attachments: [], headers: [], inReplyTo: null, references: [] },
    });
  });

  test('answers a mail by its id and the whole chain, each id once', () => {
    expect(outgoingMessage({}, REPLY)).toMatchObject({
      inReplyTo: '<parent@x.test>',
      references: ['<root@x.test>', '<parent@x.test>'],
    });
  });

  test.each([
    ['parent@x.test', '<parent@x.test>'],
    [' <parent@x.test> ', '<parent@x.test>'],
    ['no id at all', null],
    ['', null],
  ])('answers %j as %j', (messageId, expected) => {
    expect(outgoingMessage({}, { messageId, references: [] })).toMatchObject({
      inReplyTo: expected,
      references: expected ? [expected] : [],
    });
  });

  test.each([
    [{}, { filename: null, contentType: null, cid: null, inline: false }],
    [
      { filename: '', content_type: '', cid: '' },
      { filename: null, contentType: null, cid: null, inline: false },
    ],
    [
      { filename: 'a.png', cid: '<logo>' },
      { filename: 'a.png', cid: 'logo', inline: true },
    ],
  ])('takes the attachment %j', (given, expected) => {
    const [attachment] = outgoingMessage({ attachments: [file('bytes', given)] }).attachments;
    expect(attachment).toMatchObject(expected);
    expect(attachment?.content.toString()).toBe('bytes');
  });
});

describe('an update of a draft', () => {
  const draft = {
    ...outgoingMessage(
      {
        to: [{ email: 'to@x.test' }],
        cc: [{ email: 'cc@x.test' }],
        bcc: [{ email: 'bcc@x.test' }],
        reply_to: [{ email: 'reply@x.test' }],
        subject: 'old',
        html: '<p>old</p>',
        plain_text: 'old text',
        custom_headers: [
          { name: 'X-Old', value: '1' },
          { name: 'User-Agent', value: 'a mail program' },
        ],
        attachments: [file('old', { filename: 'old.txt' })],
      },
      REPLY,
    ),
    from: { email: 'alias@x.test' },
  };
  const news = { ...GIVEN, messageId: '<new@x.test>', date: new Date('2026-05-05T00:00:00Z') };

  test('keeps every missing field; Message-ID and Date are new', () => {
    expect(mergeInput(draft, {}, news)).toEqual({ ...draft, messageId: news.messageId, date: news.date });
  });

  test.each([
    ['to', { to: [{ email: 'n@x.test' }] }, { to: [{ email: 'n@x.test' }] }],
    ['cc, emptied', { cc: [] }, { cc: [] }],
    ['bcc', { bcc: [{ email: 'n@x.test' }] }, { bcc: [{ email: 'n@x.test' }] }],
    ['from', { from: { display_name: 'N' } }, { from: GIVEN.from }],
    ['subject, emptied', { subject: '' }, { subject: '' }],
    ['html, with a new plain text', { html: '<p>n</p>' }, { html: '<p>n</p>', plainText: null }],
    ['html and text', { html: '<p>n</p>', plain_text: 't' }, { html: '<p>n</p>', plainText: 't' }],
    ['text alone', { plain_text: 't' }, { plainText: 't' }],
    ['attachments, emptied', { attachments: [] }, { attachments: [] }],
    [
      'custom headers, but not those that callers cannot set',
      { custom_headers: [{ name: 'X-New', value: '2' }] },
      {
        headers: [
          { name: 'User-Agent', value: 'a mail program' },
          { name: 'X-New', value: '2' },
        ],
      },
    ],
  ])('replaces %s', (_name, input, expected) => {
    const kept = { ...draft, messageId: news.messageId, date: news.date };
    expect(mergeInput(draft, input, news)).toEqual({ ...kept, ...expected });
  });

  test('reply_to replaces a Reply-To header', () => {
    const before = { ...draft, headers: [{ name: 'Reply-To', value: 'old@x.test' }] };
    expect(mergeInput(before, { reply_to: [{ email: 'n@x.test' }] }, news)).toMatchObject({
      headers: [],
      replyTo: [{ email: 'n@x.test' }],
    });
  });

  test('uses the given sender where the draft has none', () => {
    expect(mergeInput({ ...draft, from: { email: '' } }, {}, news).from).toEqual(GIVEN.from);
  });

  test.each([
    [undefined, '<parent@x.test>'],
    [null, null],
    [{ messageId: '<other@x.test>', references: [] }, '<other@x.test>'],
  ])('threading with reply %j', (reply, expected) => {
    expect(mergeInput(draft, {}, { ...news, reply }).inReplyTo).toBe(expected);
  });
});

describe('a References chain', () => {
  const ids = (count: number): string[] => Array.from({ length: count }, (_, index) => `<${index}@x>`);
  test.each([
    [0, []],
    [1, ['<0@x>']],
    [100, ids(100)],
    [300, ['<0@x>', ...ids(300).slice(-99)]],
  ])('of %i ids', (count, expected) => {
    expect(cappedReferences(ids(count))).toEqual(expected);
  });
});
