import { join } from 'node:path';
import type { Env } from '../runtime/settings-message.ts';
import type { Part } from './supervise.ts';

/** The settings of worker and API: their environment at the start, the rest when it is known. */
interface Settings {
  env: Env;
  settings: Promise<Env>;
}

/**
 * The API process; ready when it says that it listens and its URL, which another program may serve until then, responds. Not by
 * `/ready`: restarted while Temporal is away, it must serve reads.
 */
export function serverPart(root: string, settings: Settings, apiUrl: () => Promise<string>): Part {
  return {
    ...nodePart(root, 'server', settings),
    isReady: async (message) => message === 'ready' && isOk(`${await apiUrl()}/health`),
  };
}

/** A worker process; it sends `ready` over its channel when it polls all its queues. */
export function workerPart(root: string, settings: Settings, number = 1): Part {
  const name = number === 1 ? 'worker' : `worker-${number}`;
  return { ...nodePart(root, 'worker', settings, name), isReady: async (message) => message === 'ready' };
}

/**
 * glibc gives each thread its own memory arena and retains freed memory in it: 40 MiB of a worker at rest. Two arenas
 * suffice (mallopt(3), M_ARENA_MAX); the environment may set another number.
 */
export const MEMORY = { MALLOC_ARENA_MAX: '2' };

function nodePart(root: string, entry: string, { env, settings }: Settings, name = entry): Omit<Part, 'isReady'> {
  return {
    name,
    command: process.execPath,
    args: [join(root, 'dist', `${entry}.js`)],
    env: { ...MEMORY, ...env },
    settings,
    ipc: true,
    stopSignal: 'SIGTERM',
    stopMs: 5500,
    readyMs: 60_000,
  };
}

async function isOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
