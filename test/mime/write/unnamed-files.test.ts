import { tmpdir } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { compose } from '../../../src/mime/write/compose.ts';
import { readDraftMessage } from '../../../src/mime/write/stored-draft.ts';
import { file, GIVEN, outgoingMessage } from '../outgoing-messages.ts';

/** A draft as it is read back. */
async function readBack(contentType: string, text: { html?: string; plain_text?: string }) {
  const attachments = [file('a file', { content_type: contentType, cid: 'notes' })];
  const source = await compose(outgoingMessage({ ...text, attachments }), { keepBcc: true });
  return readDraftMessage(source, GIVEN, tmpdir());
}

describe('a file with a cid and without a name stays a file', () => {
  test.each([
    ['text/plain', 'attachment-1.txt'],
    ['text/plain; charset=utf-8', 'attachment-1.txt'],
    ['Text/HTML', 'attachment-1.html'],
    ['nonsense', 'attachment-1.bin'],
    ['text/csv', null],
    ['image/png', null],
  ])('%s', async (type, filename) => {
    const ofHtml = await readBack(type, { html: '<a href="cid:notes">notes</a>' });
    expect(ofHtml).toMatchObject({ html: '<a href="cid:notes">notes</a>' });
    expect(ofHtml.attachments).toMatchObject([{ filename, cid: 'notes', content: Buffer.from('a file') }]);
    const ofText = await readBack(type, { plain_text: 'see the notes' });
    expect(ofText).toMatchObject({ html: null, plainText: 'see the notes' });
    expect(ofText.attachments).toMatchObject([{ filename, cid: 'notes', content: Buffer.from('a file') }]);
  });
});
