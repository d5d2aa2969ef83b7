import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FLOODS } from './flood-scripts.ts';
import { FakeImap, PLAIN } from './fake-imap.ts';

export interface FloodServer {
  port: number;
  /** from now on connections get this flood */
  flood(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a server that floods, in a separate process: what it does takes no CPU of this one. */
export async function startFloodServer(): Promise<FloodServer> {
  const node = ['--import', import.meta.resolve('tsx'), fileURLToPath(import.meta.url)];
  // it ends with its input, and so with this process
  const child = spawn(process.execPath, node, { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface(child.stdout);
  const [port] = (await once(answers, 'line')) as [string];
  return {
    port: Number(port),
    flood: async (name) => {
      child.stdin.write(`${name}\n`);
      await once(answers, 'line');
    },
    stop: async () => {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await new FakeImap({ capabilities: `${PLAIN} CONDSTORE QRESYNC` }).listen();
  server.add('INBOX', Buffer.from('Subject: one\r\n\r\ntext'));
  const names = createInterface(process.stdin);
  names.on('line', (name) => {
    server.script = FLOODS[name] ?? {};
    console.log(name);
  });
  names.once('close', () => process.exit());
  console.log(server.port);
}
