import { expect, test } from '@jest/globals';
import { compose, envelopeOf } from '../../../src/mime/write/compose.ts';
import { message, read } from '../read-fixture.ts';
import { outgoingMessage } from '../outgoing-messages.ts';

test('an address beyond ASCII is read, written and read again as the same', async () => {
  const mail = await read(
    message(['From: Ada <ada@xn--bcher-kva.example>', 'To: jörg@bücher.example', 'Subject: x'], 'x'),
  );
  const people = [mail.from, ...mail.to].map(({ identifier }) => identifier);
  expect(people).toEqual(['ada@bücher.example', 'jörg@bücher.example']);
  const source = await compose(outgoingMessage({ to: people.map((email) => ({ email })), html: '<p>x</p>' }), {
    keepBcc: true,
  });
  // RFC 6532: what is not ASCII in a header is UTF-8
  expect(source.toString('utf8')).toContain('To: ada@xn--bcher-kva.example, jörg@bücher.example\r\n');
  expect((await read(source)).to.map(({ identifier }) => identifier)).toEqual(people);
});

test('the envelope has each address once, in whichever form, and names the field that needs SMTPUTF8', () => {
  const to = (...emails: string[]) => emails.map((email) => ({ email }));
  const from = { email: 'me@example.test' };
  const domains = { from, to: to('ada@bücher.example', 'ADA@xn--bcher-kva.example'), cc: [], bcc: [] };
  expect(envelopeOf(domains)).toEqual({ from: 'me@example.test', to: ['ada@xn--bcher-kva.example'] });
  const local = {
    from,
    to: to('ada@x.example'),
    cc: to('bo@x.example', 'jörg@bücher.example'),
    bcc: to('jörg@xn--bcher-kva.example'),
  };
  expect(envelopeOf(local)).toMatchObject({ needsUtf8: 'cc.1.email' });
  expect(envelopeOf(local).to).toHaveLength(3);
  const replyTo = to('ada@x.example', 'jörg@x.example');
  expect(envelopeOf({ ...domains, replyTo })).toMatchObject({ needsUtf8: 'reply_to.1.email' });
  const header = { name: 'reply-to', value: 'Jörg <jörg@x.example>' };
  expect(envelopeOf({ ...domains, headers: [header] })).toMatchObject({ needsUtf8: 'reply_to.0.email' });
  expect(envelopeOf({ ...domains, from: { email: 'jörg@example.test' } })).toMatchObject({ needsUtf8: 'from.email' });
});
