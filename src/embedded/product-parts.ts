import { join } from 'node:path';
import type { Part } from './supervise.ts';

type Env = Readonly<Record<string, string>>;

/** The API process; ready when `readyUrl` says so. */
export function serverPart(root: string, env: Env, readyUrl: string): Part {
  return { ...nodePart(root, 'server', { env }), isReady: () => isOk(readyUrl) };
}

/** A worker process; it sends `ready` over its channel when it polls all its queues. */
export function workerPart(root: string, env: Env, number = 1): Part {
  const name = number === 1 ? 'worker' : `worker-${number}`;
  return { ...nodePart(root, 'worker', { name, env }), isReady: async (message) => message === 'ready' };
}

/**
 * glibc gives each thread memory of its own and keeps what was freed there: 40 MiB of a worker at rest. Two arenas do
 * (mallopt(3), M_ARENA_MAX); another number may be set.
 */
const MEMORY = { MALLOC_ARENA_MAX: '2' };

function nodePart(
  root: string,
  entry: string,
  { name = entry, env }: { name?: string; env: Env },
): Omit<Part, 'isReady'> {
  return {
    name,
    command: process.execPath,
    args: [join(root, 'dist', `${entry}.js`)],
    env: { ...MEMORY, ...env },
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
