import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';

const ROOT = join(import.meta.dirname, '..', '..');
const dir = mkdtempSync(join(tmpdir(), 'running-product-'));
afterAll(() => rmSync(dir, { recursive: true }));

async function listening(host: string, respond: RequestListener): Promise<{ server: Server; port: string }> {
  const server = createServer(respond).listen(0, host);
  await once(server, 'listening');
  return { server, port: String((server.address() as AddressInfo).port) };
}

/** What `npm run verify` prints; in a folder where no product has run. */
async function verify(env: Record<string, string>): Promise<{ code: number; output: string }> {
  const script = join(ROOT, 'scripts', 'verify.mjs');
  const child = spawn(process.execPath, [script, 'acc_1'], { cwd: dir, env: { PATH: process.env['PATH'], ...env } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return { code, output };
}

const completed: RequestListener = (request, response) => {
  const body = { status: 'completed', left: 0, key: request.headers['x-api-key'] };
  response.setHeader('Content-Type', 'application/json').end(JSON.stringify(body));
};

describe('a command on the running product', () => {
  it.each([
    ['127.0.0.2', '127.0.0.2'],
    ['127.0.0.1', '0.0.0.0'],
    ['::1', '::1'],
    ['::1', '::'],
  ])('calls the product at %s when HOST is %s', async (host, HOST) => {
    const { server, port } = await listening(host, completed);
    try {
      expect(await verify({ HOST, PORT: port, API_KEY: 'key' })).toMatchObject({ code: 0 });
    } finally {
      server.close();
    }
  });

  it('reads an empty setting as one that is not set', async () => {
    const { server, port } = await listening('127.0.0.1', completed);
    writeFileSync(join(dir, 'bootstrap-api-key'), 'stored\n');
    try {
      const empty = { HOST: '', API_KEY: '', BOOTSTRAP_API_KEY: '', API_URL: '' };
      const { output } = await verify({ ...empty, PORT: port, DATA_DIR: dir });
      expect(output).toContain('"key": "stored"');
      expect(await verify({ ...empty, PORT: port, DATA_DIR: '' })).toEqual({
        code: 1,
        output: `API_KEY is not set, and ${join('.data', 'bootstrap-api-key')} does not exist\n`,
      });
    } finally {
      server.close();
    }
  });

  it('says in a line that a proxy has responded', async () => {
    const { server, port } = await listening('127.0.0.1', (_request, response) =>
      response.writeHead(502, { 'Content-Type': 'text/html' }).end('<html>Bad Gateway</html>'),
    );
    try {
      expect(await verify({ PORT: port, API_KEY: 'key' })).toEqual({
        code: 1,
        output: `acc_1: http://127.0.0.1:${port} responded with 502 and no JSON\n`,
      });
    } finally {
      server.close();
    }
  });
});
