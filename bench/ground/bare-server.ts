import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fastify } from 'fastify';
import type { Bench } from './setup.ts';

/**
 * A Fastify server in a separate process that always sends the same bytes, at `/NAME`: the upper bound of the product's
 * speed. Resolves with its URL.
 */
export async function startBareServer(bench: Bench, responses: Record<string, Buffer>): Promise<string> {
  const dir = join(bench.dir, 'bare-server');
  await mkdir(dir);
  for (const [name, bytes] of Object.entries(responses)) await writeFile(join(dir, name), bytes);
  const server = spawn(process.execPath, ['--import', 'tsx', fileURLToPath(import.meta.url), dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  bench.alsoStop.push(async () => {
    const gone = once(server, 'exit');
    server.kill('SIGTERM');
    await gone;
  });
  const [line] = (await once(server.stdout, 'data')) as [Buffer];
  return line.toString().trim();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dir = process.argv[2] ?? '';
  const app = fastify();
  for (const name of await readdir(dir)) {
    const bytes = await readFile(join(dir, name));
    app.get(`/${name}`, (_request, reply) => reply.type('application/json').send(bytes));
  }
  console.log(await app.listen({ port: 0, host: '127.0.0.1' }));
}
