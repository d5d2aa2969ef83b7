import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createSocketServer, type AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { isLocal, isOwnHost } from '../local-hosts.ts';

export interface MetricsServer {
  /** e.g. `http://127.0.0.1:9464/metrics` */
  url: string;
  close(): Promise<void>;
}

export interface MetricsServerOptions {
  host: string;
  /** the first port to use; the next free one if it is in use */
  port: number;
  registry: Registry;
  /** host:port of the metrics of Temporal's SDK, which are included */
  sdkAddress?: string;
  /** the process takes work */
  isReady(): boolean;
}

/** Candidate ports: workers of one machine share the setting. */
const PORTS = 100;
const SDK_MS = 2_000;

/** Serves `GET /metrics` for Prometheus, and `GET /ready`: 200, or 503. Rejects when no port is free. */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { host, port, registry, sdkAddress, isReady } = options;
  const server = createServer((request, response) => {
    const path = request.method === 'GET' ? request.url?.split('?')[0] : undefined;
    if (path !== '/metrics' && path !== '/ready') {
      response.writeHead(404).end();
      return;
    }
    if (isLocal(host) && !isOwnHost(request.headers.host)) {
      response.writeHead(403).end();
      return;
    }
    if (path === '/ready') {
      response.writeHead(isReady() ? 200 : 503).end();
      return;
    }
    render(registry, sdkAddress).then(
      (text) => response.writeHead(200, { 'Content-Type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  const bound = await listenFrom(server, host, port);
  server.unref();
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/metrics`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Renders all metrics; without those of the SDK when they cannot be read. */
async function render(registry: Registry, sdkAddress: string | undefined): Promise<string> {
  const own = await registry.metrics();
  if (sdkAddress === undefined) return own;
  const sdk = await fetch(`http://${sdkAddress}/metrics`, { signal: AbortSignal.timeout(SDK_MS) })
    .then((response) => response.text())
    .catch(() => '');
  return `${own}${sdk}`;
}

async function listenFrom(server: Server, host: string, first: number): Promise<number> {
  for (let port = first; ; port++) {
    const listening = once(server, 'listening');
    try {
      server.listen({ port, host, exclusive: true });
      await listening;
      return (server.address() as AddressInfo).port;
    } catch (error) {
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isTaken || first === 0 || port >= Math.min(first + PORTS, 65_535)) throw error;
    }
  }
}

/** A loopback port that was free just now. */
export async function freeLoopbackPort(): Promise<number> {
  const server = createSocketServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
