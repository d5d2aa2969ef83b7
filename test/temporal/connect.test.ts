import { once } from 'node:events';
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { expect, it } from '@jest/globals';
import { lazyClient } from '../../src/temporal/connect.ts';
import { TEST_KEY } from '../helpers/assert/histories.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

it('a call that is cut off after its client was closed fails, and is not repeated', async () => {
  const server = createServer();
  const port = await listenOnFreePort(server);
  const session = once(server, 'session') as Promise<[ServerHttp2Session]>;
  const stream = once(server, 'stream') as Promise<[ServerHttp2Stream]>;
  const temporal = { address: `127.0.0.1:${port}`, namespace: 'default' };
  const { client, close } = lazyClient({ temporal, encryptionKey: TEST_KEY });
  try {
    const call = client.workflowService.getSystemInfo({});
    const failed = expect(call).rejects.toThrow();
    await stream;
    await close();
    (await session)[0].destroy();
    await failed;
  } finally {
    server.close();
  }
});
