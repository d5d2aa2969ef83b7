// `node scripts/parsing/compare.mjs [--examples]`: reads 400 mails of a generator with a fixed seed with this product's
// parser, Python's `email`, postal-mime (from npm, into a temporary folder) and bare mailparser, and prints where they
// differ, by class. docs/mail-reading.md has the last figures, and says which parser is right in each class.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import iconv from 'iconv-lite';
import { simpleParser } from 'mailparser';
import { register } from 'tsx/esm/api';

const POSTAL_MIME = '4.0.0';
const COUNT = 400;

let seed = 12;
function random(below) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
}
const pick = (list) => list[random(list.length)];

const TEXTS = [
  ['us-ascii', 'Hello Ann,\r\nsee you on Friday.\r\n'],
  ['utf-8', 'Grüße aus Köln – bis morgen 😀\r\n'],
  ['iso-8859-1', 'Grüße aus Köln, bis morgen\r\n'],
  ['windows-1252', 'Preis: 20 € – “jetzt”\r\n'],
  ['koi8-r', 'Привет, увидимся завтра\r\n'],
  ['shift_jis', 'こんにちは、明日会いましょう\r\n'],
  ['gb18030', '你好，明天见，请看附件\r\n'],
  ['euc-kr', '안녕하세요 내일 만나요\r\n'],
];
/** The defect of a message; most have none. */
const DEFECTS = [
  ...['none', 'none', 'none', 'none', 'blank after a delimiter', 'no closing delimiter', 'inner multipart left open'],
  ...['no boundary declared', 'text before the first part', 'charset not named', 'base64;', 'LF alone', 'CR alone'],
  ...['raw 8-bit subject', 'no empty line after the header', 'text outside of the HTML body', 'named text beside HTML'],
];

function encoded(text, charset, encoding) {
  const bytes = iconv.encode(text, charset);
  if (encoding === 'base64') return bytes.toString('base64').replace(/.{76}/g, '$&\r\n');
  if (encoding === '8bit') return bytes.toString('latin1');
  return bytes
    .toString('latin1')
    .replace(/[^\r\n\x20-\x3c\x3e-\x7e]/g, (c) => `=${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

function part(type, content, { charset = '', encoding = '8bit', extra = '' } = {}) {
  const label = charset ? `; charset=${charset}` : '';
  return `Content-Type: ${type}${label}\r\nContent-Transfer-Encoding: ${encoding}\r\n${extra}\r\n${content}`;
}

/** One mail, as one character a byte. */
function makeMail(index) {
  const defect = DEFECTS[index % DEFECTS.length];
  const [charset, text] = defect === 'charset not named' ? pick(TEXTS.slice(1)) : pick(TEXTS);
  const encoding = pick(['base64', 'quoted-printable', '8bit']);
  const label = defect === 'charset not named' ? '' : charset;
  const plain = part('text/plain', encoded(text, charset, encoding), {
    charset: label,
    encoding: defect === 'base64;' && encoding === 'base64' ? 'base64;' : encoding,
  });
  const inner = text.trim().replace(/</g, '&lt;');
  const markup =
    defect === 'text outside of the HTML body'
      ? `Above it.<html><body><p>${inner}</p></body></html>`
      : `<html><body><p>${inner}</p></body></html>`;
  const html = part('text/html', encoded(markup, charset, encoding), { charset: label, encoding });
  const file = part(
    'application/pdf; name="a b.pdf"',
    Buffer.alloc(300, index).toString('base64').replace(/.{76}/g, '$&\r\n'),
    { encoding: 'base64', extra: 'Content-Disposition: attachment; filename="a b.pdf"\r\n' },
  );
  const named = part('text/plain; name=notes.txt', 'the notes\r\n', { charset: 'us-ascii' });
  const gap = defect === 'blank after a delimiter' ? ' ' : '';
  const end = defect === 'no closing delimiter' ? '' : '\r\n--b--\r\n';
  const before = defect === 'text before the first part' ? 'This is a multipart message.\r\n' : '';
  const multi = (subtype, parts) =>
    `Content-Type: multipart/${subtype}${defect === 'no boundary declared' ? '' : '; boundary=b'}\r\n\r\n${before}${parts.map((each) => `--b${gap}\r\n${each}\r\n`).join('')}${end}`;
  const open = `Content-Type: multipart/alternative; boundary=in\r\n\r\n--in\r\n${plain}\r\n--in\r\n${html}\r\n`;
  const body =
    {
      'inner multipart left open': () => multi('mixed', [open, file]),
      'named text beside HTML': () => multi('mixed', [html, named]),
      'text outside of the HTML body': () => html,
    }[defect]?.() ??
    pick([() => plain, () => html, () => multi('alternative', [plain, html]), () => multi('mixed', [plain, file])])();
  const subject =
    defect === 'raw 8-bit subject'
      ? iconv.encode(text.trim().replace(/\s+/g, ' '), charset).toString('latin1')
      : pick([
          'Hello',
          '=?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
          '=?iso-2022-jp?B?GyRCJTIbKEI=?=',
          'Re: a =?utf-8?B?w6Q=?= =?utf-8?B?w7Y=?=',
        ]);
  const head = `From: "Ann, A." <ann@x.test>\r\nTo: bo@x.test\r\nSubject: ${subject}\r\nDate: Mon, 4 Mar 2024 05:06:07 +0000\r\nMessage-ID: <${index}@x.test>\r\nMIME-Version: 1.0\r\n`;
  let mail = head + body;
  if (defect === 'no empty line after the header') mail = `${head}this text has no empty line before it\r\n`;
  if (defect === 'LF alone') mail = mail.replace(/\r\n/g, '\n');
  if (defect === 'CR alone') mail = mail.replace(/\r\n/g, '\r');
  const isReplaced = defect === 'no empty line after the header';
  return {
    defect,
    wanted: clean(isReplaced ? 'this text has no empty line before it' : text),
    bytes: Buffer.from(mail, 'latin1'),
  };
}

const PYTHON = `
import email, email.policy, json, sys
out = []
for line in sys.stdin:
    m = email.message_from_bytes(bytes.fromhex(line.strip()), policy=email.policy.default)
    r = {'subject': '', 'from': '', 'text': '', 'files': []}
    try:
        r['subject'] = str(m['subject'] or '')
        r['from'] = m['from'].addresses[0].addr_spec if m['from'] and m['from'].addresses else ''
    except Exception: pass
    try:
        b = m.get_body(('plain', 'html'))
        r['text'] = b.get_content() if b else ''
    except Exception: pass
    try:
        r['files'] = [[a.get_filename() or '', len(a.get_payload(decode=True) or b'')] for a in m.iter_attachments()]
    except Exception: pass
    out.append(r)
print(json.dumps(out))
`;

const clean = (text) =>
  text
    .replace(/<[^>]*>/g, ' ')
    .replace(/&lt;/g, '<')
    .replace(/\s+/g, ' ')
    .trim();
const plainOf = ({ subject, from, text, files }) => ({
  subject: clean(subject),
  from,
  text: clean(text),
  files: JSON.stringify(files),
});

const dir = mkdtempSync(join(tmpdir(), 'compare-'));
try {
  const mails = Array.from({ length: COUNT }, (_, index) => makeMail(index));
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', dir, `postal-mime@${POSTAL_MIME}`], {
    stdio: 'ignore',
  });
  const { default: PostalMime } = await import(
    pathToFileURL(join(dir, 'node_modules/postal-mime/dist/esm/postal-mime.js')).href
  );
  register();
  const { readMessage } = await import('../../src/mime/read/read-message.ts');
  writeFileSync(join(dir, 'read.py'), PYTHON);
  const python = JSON.parse(
    execFileSync('python3', [join(dir, 'read.py')], {
      input: mails.map(({ bytes }) => bytes.toString('hex')).join('\n'),
      maxBuffer: 1e9,
    }).toString(),
  );
  const counts = new Map();
  const right = { ours: 0, python: 0, postal: 0, mailparser: 0 };
  for (const [index, { defect, bytes, wanted }] of mails.entries()) {
    const own = await readMessage(bytes, { isTimeUp: () => false, spillDir: join(dir, 'spill') });
    const bare = await simpleParser(bytes, { skipTextToHtml: true });
    const postal = await PostalMime.parse(bytes).catch(() => ({}));
    const read = {
      python: plainOf(python[index]),
      postal: plainOf({
        subject: postal.subject ?? '',
        from: postal.from?.address ?? '',
        text: postal.text ?? postal.html ?? '',
        files: (postal.attachments ?? []).map((a) => [a.filename ?? '', a.content.byteLength]),
      }),
      mailparser: plainOf({
        subject: bare.subject ?? '',
        from: bare.from?.value[0]?.address ?? '',
        text: bare.text ?? (bare.html || ''),
        files: bare.attachments.map((a) => [a.filename ?? '', a.size]),
      }),
    };
    const ours = plainOf({
      subject: own.subject,
      from: own.from.identifier,
      text: own.bodyPlain,
      files: own.attachments.map((a) => [a.name, a.size]),
    });
    for (const [name, { text }] of Object.entries({ ...read, ours })) right[name] += text.includes(wanted) ? 1 : 0;
    for (const field of ['subject', 'from', 'text', 'files']) {
      const others = Object.entries(read)
        .filter(([, each]) => each[field] !== ours[field])
        .map(([name]) => name);
      if (others.length === 0) continue;
      const key = `${defect} | ${field} | ${others.join(', ')}`;
      const known = counts.get(key) ?? { count: 0, index, ours: ours[field], theirs: read[others[0]][field] };
      counts.set(key, { ...known, count: known.count + 1 });
    }
  }
  console.log(
    `${COUNT} mails; with the text that was written: ${JSON.stringify(right)}\n\n| Mails | Field | Differ from ours | Count |\n|-|-|-|-|`,
  );
  for (const [key, { count, index, ours, theirs }] of [...counts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    console.log(`| ${key} | ${count} |`);
    if (process.argv.includes('--examples'))
      console.log(`    mail ${index}\n    ours   ${ours.slice(0, 150)}\n    theirs ${theirs.slice(0, 150)}`);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
