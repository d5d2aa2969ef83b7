import http from 'node:http';
import https from 'node:https';
import type { NetConnectOpts, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import { types } from 'node:util';
import type { Outbound, VettedAddress } from '../../security/outbound.ts';
import { withoutUserInfo } from '../../security/user-info.ts';

type Connected = (err: Error | null, socket?: Duplex) => void;
/** The destination of a connection: the host as in the URL, the port, the server name for TLS, … */
type Destination = NetConnectOpts & { host?: string };

/** Idle connections are closed after this, ms: a busy endpoint uses them again within seconds, others can afford a new one. */
const IDLE_MS = 15_000;
/**
 * Calls are bounded for each endpoint, in the relay and in the activity. A bound for each origin here would let an endpoint that
 * does not respond delay another one at the same address. Free connections: more than an endpoint has calls at a time.
 */
const OPTIONS = { keepAlive: true, maxFreeSockets: 16, timeout: IDLE_MS };

export interface Agents {
  http: http.Agent;
  https: https.Agent;
}

/**
 * Agents for HTTP and HTTPS that keep connections open and make each new one to an address that `outbound` has just
 * allowed. TLS is checked against the name in the URL. `ca` is for tests.
 */
export function createAgents(outbound: Pick<Outbound, 'resolve'>, ca?: string): Agents {
  return { http: new VettedHttpAgent(outbound), https: new VettedHttpsAgent(outbound, ca) };
}

/** Closes the idle connections to the host and port of a URL: the next call opens a new one. */
export function closeIdle(agents: Agents, url: URL): void {
  const secure = url.protocol === 'https:';
  const { hostname, port = secure ? 443 : 80 } = urlToHttpOptions(withoutUserInfo(url));
  for (const [name, idle] of Object.entries((secure ? agents.https : agents.http).freeSockets)) {
    if (name.startsWith(`${hostname}:${port}:`)) for (const socket of [...(idle ?? [])]) socket.destroy();
  }
}

class VettedHttpAgent extends http.Agent {
  readonly #outbound;

  constructor(outbound: Pick<Outbound, 'resolve'>) {
    super(OPTIONS);
    this.#outbound = outbound;
  }

  override createConnection(destination: Destination, connected: Connected): undefined {
    vetted(this.#outbound, destination, (options) => super.createConnection(options) as Socket, connected);
  }
}

class VettedHttpsAgent extends https.Agent {
  readonly #outbound;

  constructor(outbound: Pick<Outbound, 'resolve'>, ca: string | undefined) {
    super({ ...OPTIONS, ...(ca === undefined ? {} : { ca }) });
    this.#outbound = outbound;
  }

  override createConnection(destination: Destination, connected: Connected): undefined {
    vetted(this.#outbound, destination, (options) => super.createConnection(options) as Socket, connected);
  }
}

function vetted(
  outbound: Pick<Outbound, 'resolve'>,
  destination: Destination,
  connect: (options: Destination) => Duplex,
  connected: Connected,
): void {
  outbound
    .resolve(destination.host ?? '')
    .then((addresses) => connect(towards(destination, addresses)))
    .then(
      (socket) => connected(null, socket),
      (error: unknown) => connected(types.isNativeError(error) ? error : new Error('the connection failed')),
    );
}

/**
 * The destination restricted to these addresses. Node asks `lookup` only for names: a single address replaces the host; several
 * belong to a name, and Node tries them in turn.
 */
function towards(destination: Destination, addresses: VettedAddress[]): Destination {
  const [first] = addresses;
  if (!first) throw new Error('the host has no address');
  if (addresses.length === 1) return { ...destination, host: first.address };
  return {
    ...destination,
    autoSelectFamily: true,
    lookup: (_host, options, found) => {
      if (options.all) found(null, addresses);
      else found(null, first.address, first.family);
    },
  };
}
