import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { randomInt } from 'node:crypto';
import { StartFailure } from './failure.ts';
import { tryListen } from './ports.ts';

/*
 * The UI of the dev server has no authentication: a page that reaches it under its own name (DNS rebinding) could use it
 * like the UI's own pages, and a page of another origin could send it requests. So the announced port belongs to this
 * guard, and the UI itself listens where no page finds it.
 */

export interface UiGuard {
  /** the UI for a browser */
  url: string;
  /** for `--ui-codec-endpoint` */
  codecUrl: string;
  close(): Promise<void>;
}

interface Address {
  ip: string;
  port: number;
}

/** Names that no page from elsewhere can have. Any port: it may be forwarded. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;
/** Below the ephemeral range, see firstFreePort. */
const PORTS = [20_000, 32_768] as const;

/**
 * An address for the UI that cannot be guessed: one of the 16 million of loopback. Where loopback has only one (macOS), a
 * random port.
 */
export async function hiddenAddress(): Promise<Address> {
  for (let attempt = 0; ; attempt++) {
    const port = randomInt(...PORTS);
    const ip = ['127', randomInt(256), randomInt(256), randomInt(1, 255)].join('.');
    const code = await tryListen(port, ip);
    if (code === undefined) return { ip, port };
    if (code === 'EADDRNOTAVAIL' && (await tryListen(port, '127.0.0.1')) === undefined)
      return { ip: '127.0.0.1', port };
    if (attempt === 50) throw new StartFailure(`No loopback address is free for the Temporal UI (${code}).`);
  }
}

/** The codec is served below it, so that its password belongs to the origin of the UI. */
const CODEC = '/codec';

/**
 * Listens at `port` of loopback, and forwards requests of the UI's own pages and of local programs to the UI at `target`,
 * and those below `/codec` to the codec, which asks for a password.
 */
export async function startUiGuard({
  port,
  target,
  codecPort,
}: {
  port: number;
  target: Address;
  codecPort: number;
}): Promise<UiGuard> {
  const codec = { ip: '127.0.0.1', port: codecPort };
  const server = createServer((incoming, response) => {
    const { method = 'GET', url = '/', headers } = incoming;
    const reason = whyRefused({ method, path: url, headers });
    if (reason === undefined && url.startsWith(`${CODEC}/`)) {
      passOn(incoming, response, { ...codec, path: url.slice(CODEC.length) });
    } else if (reason === undefined) passOn(incoming, response, { ...target, path: url });
    else response.writeHead(403, { 'content-type': 'text/plain' }).end(`${reason}\n`);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new StartFailure(`The Temporal UI cannot be served: ${error.message}`)));
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${port}`,
    codecUrl: `http://127.0.0.1:${port}${CODEC}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Why a request is refused; undefined: it may come from a page of the UI or a program. */
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
  if (!LOOPBACK_HOST.test(host)) return 'Use 127.0.0.1 or localhost as the host.';
  if (origin !== undefined && origin !== `http://${host}`) return 'Cross-origin request refused.';
  const reads = method === 'GET' || method === 'HEAD';
  if (!reads && origin === undefined) return 'State-changing requests must send Origin.';
  // a link may lead here, but not into a frame and not to the data
  const followed = reads && mode === 'navigate' && dest === 'document' && !path.startsWith('/api/');
  const isOwn = site === undefined || site === 'same-origin' || site === 'none';
  return isOwn || followed ? undefined : 'Cross-site request refused.';
}

function passOn(
  incoming: IncomingMessage,
  response: ServerResponse,
  { ip, port, path }: Address & { path: string },
): void {
  const { method, headers } = incoming;
  const outgoing = request({ host: ip, port, method, path, headers: { ...headers, host: `${ip}:${port}` } });
  outgoing.on('response', (answer) => {
    const own = { 'x-frame-options': 'DENY', 'cross-origin-resource-policy': 'same-origin' };
    response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...own });
    answer.pipe(response);
  });
  outgoing.on('error', () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502, { 'content-type': 'text/plain' }).end('Temporal is starting.\n');
  });
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}
