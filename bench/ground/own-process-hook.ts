import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { hook, ok } from './webhook-ground.ts';

/** An endpoint in a separate process that answers 200: other work of the bench does not delay its times. */
export interface OwnProcessHook {
  url: string;
  /** when each sequence was answered, ms since 1970 */
  received(): Promise<Map<number, number>>;
  close(): Promise<void>;
}

export async function ownProcessHook(): Promise<OwnProcessHook> {
  const child = fork(fileURLToPath(import.meta.url), { execArgv: ['--import', 'tsx'] });
  const [url] = (await once(child, 'message')) as [string];
  return {
    url,
    received: async () => {
      const answer = once(child, 'message');
      child.send('received');
      const [entries] = (await answer) as [[number, number][]];
      return new Map(entries);
    },
    close: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url, received } = await hook(ok);
  process.on('message', () => process.send?.([...received]));
  process.send?.(url);
}
