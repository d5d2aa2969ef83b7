import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { fetchDocument, parseAutoconfig } from '../../src/discovery/autoconfig.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

const server = (
  type: string,
  fields: Record<string, string>,
  element = type === 'smtp' ? 'outgoingServer' : 'incomingServer',
) =>
  `<${element} type="${type}">${Object.entries(fields)
    .map(([name, value]) => `<${name}>${value}</${name}>`)
    .join('\n')}</${element}>`;
const good = { hostname: 'mail.example.com', port: '993', socketType: 'SSL', username: '%EMAILADDRESS%' };

describe('an autoconfig document', () => {
  const address = 'ann@example.com';

  it('yields the first IMAP and SMTP servers with TLS', () => {
    const xml = [
      server('pop3', { ...good, hostname: 'pop.example.com' }),
      server('imap', { ...good, hostname: 'plain.example.com', socketType: 'plain' }),
      server('imap', { ...good, hostname: 'IMAP.%EMAILDOMAIN%' }),
      server('imap', { ...good, hostname: 'second.example.com' }),
      server('smtp', { ...good, port: '587', socketType: 'STARTTLS', username: '%EMAILLOCALPART%' }),
    ].join('\n');
    expect(parseAutoconfig(xml, address)).toEqual({
      imap: { host: 'imap.example.com', port: 993, encryption: 'SSL' },
      smtp: { host: 'mail.example.com', port: 587, encryption: 'STARTTLS', user: 'ann' },
    });
  });

  it.each([
    ['a host with odd characters', { ...good, hostname: 'mail.example.com/evil' }],
    ['a host with a line break', { ...good, hostname: 'mail\nexample' }],
    ['no host', { port: '993', socketType: 'SSL' }],
    ['a port that is none', { ...good, port: '99999' }],
    ['no encryption', { ...good, socketType: 'plain' }],
    ['an unknown encryption', { ...good, socketType: 'maybe' }],
  ])('is not believed with %s', (_what, fields) => {
    expect(parseAutoconfig(server('imap', fields), address)).toEqual({});
  });

  it('is read past comments', () => {
    expect(parseAutoconfig(`<!-- ${server('imap', good)} -->`, address)).toEqual({});
    const inside = server('imap', { ...good, hostname: '<!-- old.example.com -->mail.<!-- -->example.com' });
    expect(parseAutoconfig(inside, address).imap?.host).toBe('mail.example.com');
  });

  it('may have CDATA, entities of XML, attributes, blanks and other elements', () => {
    const xml = `<?xml version="1.0"?>
      <clientConfig version="1.1"><emailProvider id="example.com">
        <incomingServer  TYPE = 'IMAP' >
          <hostname id="x"><![CDATA[mail.example.com]]></hostname><port> &#57;93 </port>
          <socketType>ssl</socketType><username>o&apos;hara&amp;co</username>
          <authentication>password-cleartext</authentication><extra><port>1</port></extra>
        </incomingServer>
      </emailProvider></clientConfig>`;
    const imap = { host: 'mail.example.com', port: 993, encryption: 'SSL', user: "o'hara&co" };
    expect(parseAutoconfig(xml, address)).toEqual({ imap });
  });

  it.each([
    ['a custom entity', '&host;'],
    ['an entity that nests others', '&lol9;'],
    ['an entity of another file', '&file;'],
    ['an entity of HTML', 'mail&period;example&period;com'],
  ])('is not believed where the host is %s', (_what, hostname) => {
    const entities = [
      '<!ENTITY host "mail.example.com"><!ENTITY file SYSTEM "file:///etc/hostname">',
      ...Array.from({ length: 9 }, (_, index) => `<!ENTITY lol${index + 1} "${`&lol${index};`.repeat(10)}">`),
    ].join('');
    const xml = `<!DOCTYPE clientConfig [${entities}]>${server('imap', { ...good, hostname })}`;
    expect(parseAutoconfig(xml, address)).toEqual({});
  });

  it.each([
    ['deeply nested', `${'<a>'.repeat(40_000)}${server('imap', good)}`],
    ['nested in a server', `<incomingServer type="imap">${'<x>'.repeat(40)}</incomingServer>${server('imap', good)}`],
    ['in CDATA', `<![CDATA[${server('imap', good)}]]>`],
    ['in a server of another kind', `<incomingServer type="pop3">${server('imap', good)}</incomingServer>`],
    ['in an attribute', `<a b='${server('imap', good)}'/>`],
    ['with a host of 200,000 characters', server('imap', { ...good, hostname: 'a'.repeat(200_000) })],
    ['with elements in the host', server('imap', { ...good, hostname: '<b>mail.example.com</b>' })],
  ])('is not believed %s', (_what, xml) => {
    expect(parseAutoconfig(xml, address)).toEqual({});
  });

  it('is read up to its end, regardless of what follows', () => {
    expect(parseAutoconfig(`${server('imap', good)}</b></a><!ENTITY <<<]]>&&&;`, address).imap?.port).toBe(993);
  });

  it.each(['', '<', '<incomingServer', '<incomingServer type="imap"', '<!--', '<html>not found</html>', '\0\0', '{}'])(
    'may be anything: %j',
    (xml) => {
      expect(parseAutoconfig(xml, address)).toEqual({});
    },
  );

  it.each([
    '<incomingServer type="imap">',
    '<incomingServer ',
    '<!--',
    '<hostname>',
    '<incomingServer type="imap"></incomingServer>',
    '<a>',
    '</a>',
    '<a></b>',
    '<![CDATA[',
    '&amp;',
    '&#x',
    '<!DOCTYPE [',
    '<a b="',
  ])('costs little however long it is: %j', (piece) => {
    const xml = piece.repeat((256 * 1024) / piece.length);
    expectCpuBelow(500, () => parseAutoconfig(xml, address));
  });
});

describe('fetching a document', () => {
  let dir: string;
  let https: Server;
  let base: string;
  let ca: Buffer;
  const outbound = createOutbound({
    allow: ['127.0.0.0/8', '::1/128'],
    lookup: async () => [{ address: '127.0.0.1' }],
  });
  const get = (path: string, timeoutMs = 2_000) => fetchDocument(`${base}${path}`, { outbound, timeoutMs, ca });

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'autoconfig-'));
    const file = (name: string) => join(dir, name);
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
        ...[
          '-keyout',
          file('key'),
          '-out',
          file('cert'),
          '-subj',
          '/CN=x',
          '-addext',
          'subjectAltName=DNS:conf.example',
        ],
      ],
      { stdio: 'ignore' },
    );
    ca = readFileSync(file('cert'));
    https = createServer({ key: readFileSync(file('key')), cert: ca }, (request, response) => {
      if (request.url === '/ok') response.end(`<x>${request.headers.host}</x>`);
      else if (request.url === '/redirect') response.writeHead(302, { location: '/ok' }).end();
      else if (request.url === '/large') response.end(Buffer.alloc(300 * 1024));
      else if (request.url === '/slow') response.write('x');
      else if (request.url === '/upgrade')
        request.socket.end('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
      else response.writeHead(404).end('<x/>');
    });
    base = `https://conf.example:${await listenOnFreePort(https)}`;
  });
  afterAll(async () => {
    https.closeAllConnections();
    await new Promise((resolve) => https.close(resolve));
    rmSync(dir, { recursive: true });
  });

  it('connects to the vetted address with the name of the host', async () => {
    expect(await get('/ok')).toBe(`<x>${new URL(base).host}</x>`);
  });

  it.each(['/missing', '/redirect', '/large', '/upgrade'])('has no result for %s', async (path) => {
    expect(await get(path)).toBeUndefined();
  });

  it('gives up on a slow server', async () => {
    // its response never ends
    expect(await get('/slow', 200)).toBeUndefined();
  });

  it('rejects a certificate for another name', async () => {
    const url = base.replace('conf.example', 'other.example');
    expect(await fetchDocument(`${url}/ok`, { outbound, timeoutMs: 2_000, ca })).toBeUndefined();
  });

  it('calls no address that the guard refuses', async () => {
    const strict = createOutbound({ allow: [], lookup: async () => [{ address: '127.0.0.1' }] });
    expect(await fetchDocument(`${base}/ok`, { outbound: strict, timeoutMs: 2_000, ca })).toBeUndefined();
  });
});
