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
 * What a process of the product takes from its environment when it starts; the environment may set other numbers. Two arenas of memory:
 * glibc gives each thread its own and retains freed memory in it, 40 MiB of a worker at rest (mallopt(3), M_ARENA_MAX).
 * 64 threads for files and names: half of them may look up names (libuv, `uv_getaddrinfo`), each for as long as a
 * nameserver does not answer, and with the default of 4, two such names hold up all others.
 */
export const AT_START = { MALLOC_ARENA_MAX: '2', UV_THREADPOOL_SIZE: '64' };

function nodePart(root: string, entry: string, { env, settings }: Settings, name = entry): Omit<Part, 'isReady'> {
  return {
    name,
    command: process.execPath,
    args: [join(root, 'dist', `${entry}.js`)],
    env: { ...AT_START, ...env },
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
