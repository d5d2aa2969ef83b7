import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { freePort } from '../servers/free-port.ts';
import { startProduct } from './product.ts';
import { type Call, startReceiver } from '../fakes/receiver.ts';
import { HOST_VARIABLE, type ProductAddress, type SharedCall } from './shared-product.ts';

/** The products that test files share: one for each set of settings, started at the first request. */
export interface ProductHost {
  /** for the processes that test */
  env: Record<string, string>;
  stop(): Promise<void>;
}

type Hosted = Awaited<ReturnType<typeof startHosted>>;

/** Runs in the process that starts jest. With the settings as JSON in the query, `/product` returns how a product is reached, and `/calls` streams its webhook calls. */
export async function startProductHost(): Promise<ProductHost> {
  const products = new Map<string, Promise<Hosted>>();
  const find = (key: string): Promise<Hosted> => {
    const found = products.get(key);
    if (found !== undefined) return found;
    const starting = startHosted(JSON.parse(key) as Record<string, string>);
    products.set(key, starting);
    // the next request starts it again
    starting.catch(() => products.delete(key));
    return starting;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '', 'http://host');
    const product = await find(url.searchParams.get('settings') ?? '{}');
    if (url.pathname === '/calls') product.follow(response);
    else response.end(JSON.stringify(product.address));
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      response.statusCode = 500;
      response.end(String(error));
    });
  });
  const port = await freePort();
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    env: { [HOST_VARIABLE]: `http://127.0.0.1:${port}` },
    stop: async () => {
      server.close();
      server.closeAllConnections();
      // a failed start has failed the tests that requested it
      const stopping = [...products.values()].map((starting) => starting.then((product) => product.stop()));
      await Promise.allSettled(stopping);
    },
  };
}

/** One product with one endpoint for every event of every account; the calls go to all who follow them. */
async function startHosted(settings: Record<string, string>) {
  const product = await startProduct(settings);
  const receiver = await startReceiver();
  await product.api.listen(receiver);
  const followers = new Set<ServerResponse>();
  receiver.onCall = (call, faults) => {
    const line = `${JSON.stringify(toShared(call, faults))}\n`;
    for (const follower of followers) follower.write(line);
    // the followers have them
    receiver.calls.length = 0;
  };
  return {
    address: {
      base: product.api.base,
      key: product.api.key,
      databaseUrl: product.database.url,
    } satisfies ProductAddress,
    follow(response: ServerResponse) {
      followers.add(response);
      response.on('close', () => followers.delete(response));
      response.flushHeaders();
    },
    async stop() {
      await product.stop();
      await receiver.close();
    },
  };
}

function toShared({ event: _, body, ...rest }: Call, faults: string[]): SharedCall {
  return { ...rest, body: body.toString('base64'), faults };
}
