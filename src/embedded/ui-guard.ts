import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { randomInt } from 'node:crypto';
import { StartFailure } from './failure.ts';
import { tryListen } from './ports.ts';

/*
 * The UI of the dev server asks nobody who they are: a page that reaches it under a name of its own (DNS rebinding) may use
 * it as if it were the UI's own, and a page of another origin may at least send it requests. So the browser gets this guard at
 * the port that is announced, and the UI itself is where no page finds it.
 */

export interface UiGuard {
  /** the UI for a browser */
  url: string;
  close(): Promise<void>;
}

interface Address {
  ip: string;
  port: number;
}

/** The names that no page can have that came from elsewhere. Any port: it may be forwarded. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;
/** Below the ephemeral range, see firstFreePort. */
const PORTS = [20_000, 32_768] as const;

/**
 * An address for the UI that cannot be guessed: one of the 16 million of loopback. Where loopback has only one (macOS), it is
 * a port at random.
 */
export async function hiddenAddress(): Promise<Address> {
  for (let attempt = 0; ; attempt++) {
    const port = randomInt(...PORTS);
    const ip = ['127', randomInt(256), randomInt(256), randomInt(1, 255)].join('.');
    const code = await tryListen(port, ip);
    if (code === undefined) return { ip, port };
    if (code === 'EADDRNOTAVAIL' && (await tryListen(port, '127.0.0.1')) === undefined)
      return { ip: '127.0.0.1', port };
    if (attempt === 50) throw new StartFailure(`The Temporal UI finds no address on loopback (${code}).`);
  }
}

/** Listens at `port` of loopback, and passes on to the UI at `target` what its own pages and programs of this machine ask. */
export async function startUiGuard({ port, target }: { port: number; target: Address }): Promise<UiGuard> {
  const server = createServer((incoming, response) => {
    const { method = 'GET', url = '/', headers } = incoming;
    const reason = whyRefused({ method, path: url, headers });
    if (reason === undefined) passOn(incoming, response, target);
    else response.writeHead(403, { 'content-type': 'text/plain' }).end(`${reason}\n`);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new StartFailure(`The Temporal UI cannot be served: ${error.message}`)));
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Why a request did not come from a page of the UI, or from a program; undefined: it may have. */
export function whyRefused({
  method,
  path,
  headers,
}: {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
}): string | undefined {
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers;
  if (!LOOPBACK_HOST.test(host)) return 'This is reached as 127.0.0.1 or localhost only.';
  if (origin !== undefined && origin !== `http://${host}`) return 'A page of another origin asked.';
  const reads = method === 'GET' || method === 'HEAD';
  if (!reads && origin === undefined) return 'What changes something says which page it comes from (Origin).';
  // a link may lead here, but not into a frame and not to the data
  const followed = reads && mode === 'navigate' && dest === 'document' && !path.startsWith('/api/');
  const isOwn = site === undefined || site === 'same-origin' || site === 'none';
  return isOwn || followed ? undefined : 'A page of another site asked.';
}

function passOn(incoming: IncomingMessage, response: ServerResponse, { ip, port }: Address): void {
  const { method, url, headers } = incoming;
  const outgoing = request({ host: ip, port, method, path: url, headers: { ...headers, host: `${ip}:${port}` } });
  outgoing.on('response', (answer) => {
    const own = { 'x-frame-options': 'DENY', 'cross-origin-resource-policy': 'same-origin' };
    response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...own });
    answer.pipe(response);
  });
  outgoing.on('error', () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502, { 'content-type': 'text/plain' }).end('Temporal is being started.\n');
  });
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}
