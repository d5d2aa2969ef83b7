/*
 * Run by test/security/hostile-network.test.ts in a separate network whose only name server is hostile: connects to names as
 * the product does, and prints the results and the addresses that received a connection.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createWeb, type RequestListener } from 'node:http';
import { createServer as createSecureWeb } from 'node:https';
import { createServer, type Server, type Socket } from 'node:net';
import { createDiscoverSources, discoverServers } from '../../../src/discovery/discover.ts';
import { openSession } from '../../../src/imap/session.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import { verifySmtpLogin } from '../../../src/smtp/login.ts';
import { createPoster } from '../../../src/webhooks/attempt/post.ts';
import { FORBIDDEN_HOSTS, FORBIDDEN_URLS } from './forbidden-hosts.ts';
import { type Records, startHostileDns } from './hostile-dns.ts';

const PUBLIC = '93.184.215.14';
const FORBIDDEN = ['10.0.0.5', '169.254.169.254', '192.168.1.1', '100.64.0.1', '0.0.0.0'];
const MAIL_PORTS = [143, 465, 587, 993];
const TIMEOUT_MS = 3_000;

/** Returns different addresses in each turn. */
function turns(...answers: string[][]): () => readonly string[] {
  let turn = 0;
  return () => answers[Math.min(turn++, answers.length - 1)] ?? [];
}

const ZONE: Record<string, Records> = {
  'public.test': { addresses: [PUBLIC] },
  'redirect.test': { addresses: [PUBLIC] },
  // a turn is one query for A and one for AAAA
  'rebind.test': { addresses: turns([PUBLIC], [PUBLIC], ['127.0.0.1']) },
  'loop.test': { addresses: ['127.0.0.1'] },
  'loop6.test': { addresses: ['::1'] },
  'mapped.test': { addresses: ['::ffff:7f00:1'] },
  'nat64.test': { addresses: ['64:ff9b::7f00:1'] },
  'zero.test': { addresses: ['0.0.0.0'] },
  'inner.test': { addresses: ['10.0.0.5'] },
  'metadata.test': { addresses: ['169.254.169.254'] },
  'mixed.test': { addresses: [PUBLIC, '127.0.0.1'] },
  'mixed6.test': { addresses: [PUBLIC, '::1'] },
  'alias.test': { alias: 'loop.test' },
  '_imaps._tcp.srv.test': { srv: { target: 'inner.test', port: 993 } },
  '_submissions._tcp.srv.test': { srv: { target: 'loop.test', port: 465 } },
  '_imaps._tcp.srv-literal.test': { srv: { target: '127.0.0.1', port: 993 } },
  '_submissions._tcp.srv-literal.test': { srv: { target: '169.254.169.254', port: 465 } },
  'autoconfig.documents.test': { addresses: [PUBLIC] },
  'autoconfig.inside.test': { addresses: ['127.0.0.1'] },
  'inside.test': { addresses: ['10.0.0.5'] },
};

/** A document of a provider that names internal servers. */
const DOCUMENT = `<clientConfig version="1.1"><emailProvider id="x">
  <incomingServer type="imap"><hostname>127.0.0.1</hostname><port>993</port><socketType>SSL</socketType></incomingServer>
  <outgoingServer type="smtp"><hostname>metadata.test</hostname><port>465</port><socketType>SSL</socketType></outgoingServer>
  </emailProvider></clientConfig>`;

/** Number of connections by target address. */
const connections: Record<string, number> = {};

function count(socket: Socket): void {
  const address = socket.localAddress?.replace(/^::ffff:/, '') ?? '';
  connections[address] = (connections[address] ?? 0) + 1;
}

async function listen(server: Server, port: number): Promise<void> {
  server.on('connection', count);
  await once(server.listen(port, '::'), 'listening');
}

async function startServers(): Promise<void> {
  const respond: RequestListener = ({ headers: { host } }, response) => {
    // each call needs a new connection and look-up
    response.setHeader('Connection', 'close');
    if (host?.startsWith('redirect')) response.writeHead(302, { Location: 'http://127.0.0.1/' }).end();
    else response.end(host?.startsWith('autoconfig') ? DOCUMENT : 'ok');
  };
  const [cert, key] = [process.argv[2], process.argv[3]].map((file) => readFileSync(file as string));
  await listen(createWeb(respond), 80);
  await listen(createSecureWeb({ cert, key }, respond), 443);
  for (const port of MAIL_PORTS)
    await listen(
      createServer((socket) => socket.destroy()),
      port,
    );
  await startHostileDns(53, ZONE);
}

function bringUp(): void {
  const ip = (...args: string[]) => execFileSync('ip', args);
  ip('link', 'set', 'lo', 'up');
  for (const address of [PUBLIC, ...FORBIDDEN.slice(0, -1)]) ip('addr', 'add', `${address}/32`, 'dev', 'lo');
}

const outbound = createOutbound({ allow: [], timeoutMs: TIMEOUT_MS });
const poster = createPoster(outbound);

async function post(url: string): Promise<string> {
  const { httpStatus, errorKind } = await poster
    .post({ url, headers: [], body: Buffer.from('{}'), timeoutMs: TIMEOUT_MS })
    .catch(() => ({ httpStatus: null, errorKind: 'no url' }));
  return httpStatus === null ? String(errorKind) : String(httpStatus);
}

async function logIn(host: string): Promise<string[]> {
  const login = { host, user: 'user', password: 'canary', encryption: 'NONE' as const };
  const attempts = [
    openSession({ ...login, port: 143 }, { outbound, connectTimeoutMs: TIMEOUT_MS }),
    verifySmtpLogin({ ...login, port: 587 }, { outbound, timeoutMs: TIMEOUT_MS }),
  ];
  return (await Promise.allSettled(attempts)).map(({ status }) => status);
}

async function discover(domain: string): Promise<unknown> {
  const found = await discoverServers(`person@${domain}`, createDiscoverSources(outbound));
  for (const server of [found.imap, found.smtp]) if (server) await logIn(server.host);
  return [found.imap?.host ?? null, found.smtp?.host ?? null];
}

bringUp();
await startServers();
const outcomes: Record<string, unknown> = {};
const names = Object.keys(ZONE).filter((name) => !name.startsWith('_') && !name.includes('autoconfig'));
for (const name of names) outcomes[name] = await post(`http://${name}/`);
outcomes['rebind.test again'] = await post('http://rebind.test/');
for (const name of names.filter((one) => !/^(public|redirect)/.test(one))) outcomes[`mail ${name}`] = await logIn(name);
for (const domain of ['srv.test', 'srv-literal.test', 'documents.test', 'inside.test']) {
  outcomes[`discover ${domain}`] = await discover(domain);
}
for (const host of FORBIDDEN_HOSTS) {
  await post(`http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}/`);
  await logIn(host);
}
for (const url of FORBIDDEN_URLS) await post(url);
process.stdout.write(JSON.stringify({ outcomes, connections }));
process.exit(0);
