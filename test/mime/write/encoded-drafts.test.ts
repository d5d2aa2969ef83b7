import { describe, expect, test } from '@jest/globals';
import { simpleParser } from 'mailparser';
import { compose } from '../../../src/mime/write/compose.ts';
import { prepareDraft } from '../../../src/mime/write/prepare-draft.ts';
import { GIVEN, outgoingMessage } from '../outgoing-messages.ts';

/* Drafts of other programs whose fields have to be written anew: readers get the text of their encoded words. */

const given = { ...GIVEN, messageId: null };
const sent = async (...fields: string[]) => {
  const source = Buffer.from(`${[...fields, 'Message-ID: <1@x.test>'].join('\r\n')}\r\n\r\nx`, 'latin1');
  return simpleParser(prepareDraft(source, given).delivered);
};
const NAME = '=?UTF-8?Q?J=C3=B6rg=2C_B?=';

describe('encoded words are not encoded a second time', () => {
  test('in a line that is too long', async () => {
    const people = Array.from({ length: 40 }, (_, index) => `${NAME} <reader${index}@example.test>`);
    const { to } = await sent('From: a@x.test', `To: ${people.join(', ')}`);
    const value = [to].flat().flatMap((field) => field?.value ?? []);
    expect(value).toHaveLength(40);
    expect(value[39]).toMatchObject({ name: 'Jörg, B', address: 'reader39@example.test' });
  });

  test('beside raw text of 8 bits', async () => {
    const mail = await sent(`From: ${NAME} M\xfcller <a@x.test>`, 'Subject: =?UTF-8?Q?J=C3=B6rg?= M\xfcller');
    expect(mail.from?.value).toEqual([{ name: 'Jörg, B Müller', address: 'a@x.test' }]);
    expect(mail.subject).toBe('Jörg Müller');
  });

  test('in a Reply-To among the custom headers', async () => {
    const header = { name: 'Reply-To', value: `${NAME} <answers@x.test>, "=?UTF-8?Q?B=C3=B6?=" <bo@x.test>` };
    const source = await compose(outgoingMessage({ custom_headers: [header] }), { keepBcc: false });
    const { replyTo } = await simpleParser(source);
    expect(replyTo?.value).toEqual([
      { name: 'Jörg, B', address: 'answers@x.test' },
      { name: 'Bö', address: 'bo@x.test' },
    ]);
  });
});
