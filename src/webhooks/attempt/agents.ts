import http from 'node:http';
import https from 'node:https';
import type { NetConnectOpts, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { types } from 'node:util';
import type { Outbound, VettedAddress } from '../../security/outbound.ts';

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

/**
 * Agents for HTTP and HTTPS that keep connections open and make each new one to an address that `outbound` has just
 * allowed. TLS is checked against the name in the URL. `ca` is for tests.
 */
export function createAgents(
  outbound: Pick<Outbound, 'resolve'>,
  ca?: string,
): { http: http.Agent; https: https.Agent } {
  return { http: new VettedHttpAgent(outbound), https: new VettedHttpsAgent(outbound, ca) };
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
