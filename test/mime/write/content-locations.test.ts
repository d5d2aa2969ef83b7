import { tmpdir } from 'node:os';
import { expect, test } from '@jest/globals';
import { compose } from '../../../src/mime/write/compose.ts';
import { readDraftMessage } from '../../../src/mime/write/stored-draft.ts';
import { GIVEN } from '../outgoing-messages.ts';
import { message, read } from '../read-fixture.ts';

const HTML =
  '<p style="x">a</p><img src="https://b.example/a.gif?x=1&amp;y=2"><img src=b.gif><img src="cid:c@b.example"><img src="c.gif">' +
  '<img src="https://b.example/other.gif"><a href="?src=b.gif">src=b.gif</a><img src="e.gif">';
const image = (name: string, ...fields: string[]) =>
  ['--b', `Content-Type: image/gif; name=${name}`, ...fields, '', name].join('\r\n');
const DRAFT = message(
  ['From: a@b.example', 'Content-Type: multipart/related; boundary=b'],
  [
    `--b\r\nContent-Type: text/html\r\n\r\n${HTML}`,
    image('a.gif', 'Content-Location: https://b.example/a.gif?x=1&y=2'),
    image('b.gif', 'Content-Location: b.gif', 'Content-ID: <b@b.example>'),
    image('c.gif', 'Content-Location: c.gif', 'Content-ID: <c@b.example>'),
    image('d.gif', 'Content-Location: d.gif'),
    image('e.gif', 'Content-Location: e.gif', 'Content-ID: <e$1@b.example>'),
    '--b--',
  ].join('\r\n'),
);

test('images that a draft shows by their Content-Location (RFC 2557) are still shown after a change', async () => {
  const shown = (await read(DRAFT)).attachments.filter(({ inline }) => inline).map(({ name }) => name);
  expect(shown).toEqual(['a.gif', 'b.gif', 'c.gif', 'e.gif']);
  const draft = await readDraftMessage(DRAFT, GIVEN, tmpdir());
  const source = await compose(draft, { keepBcc: true });
  const written = await read(source);
  const inline = written.attachments.filter((each) => each.inline);
  expect(inline.map(({ name }) => name)).toEqual(shown);
  expect(written.attachments.map(({ name }) => name).toSorted()).toEqual(['a.gif', 'b.gif', 'c.gif', 'd.gif', 'e.gif']);
  const [a, , , e] = inline.map(({ cid }) => cid);
  expect(written.body).toBe(
    HTML.replace('https://b.example/a.gif?x=1&amp;y=2', `cid:${a}`)
      .replace('"e.gif"', `"cid:${e}"`)
      .replace('src=b.gif', 'src=cid:b@b.example')
      .replace('"c.gif"', '"cid:c@b.example"'),
  );
  expect((await readDraftMessage(source, GIVEN, tmpdir())).html).toBe(draft.html);
});
