import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { promisify } from 'node:util';
import { waitFor } from '../assert/wait.ts';

/** Runs a command to its end and returns its output. Throws when it fails. */
export const run = promisify(execFile);

/** Runs "$@" and stops it when standard input closes, which happens when the parent process exits. */
const WATCHED = `
exec 3<&0
# Postfix wants to lead a process group
setsid "$@" 3<&- </dev/null &
server=$!
(read -r line <&3; kill $server 2>/dev/null) &
watcher=$!
trap 'kill $server 2>/dev/null' TERM INT
wait $server
while kill -0 $server 2>/dev/null; do wait $server; done
kill $watcher 2>/dev/null
`;

/** Starts a server that exits with this process, even if that is killed. `log`: the descriptor of a file for what it prints. */
export function spawnServer(command: string, args: string[], log?: number): ChildProcess {
  // A separate session: Ctrl-C reaches only the tests, which then stop their servers.
  return spawn('sh', ['-c', WATCHED, 'sh', command, ...args], {
    stdio: ['pipe', log ?? 'ignore', log ?? 'ignore'],
    detached: true,
  });
}

/** Stops a server of spawnServer by SIGTERM, and by SIGKILL after `graceMs`; returns when it has exited. */
export async function stopChild(child: ChildProcess, graceMs = 5_000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.pid && process.kill(-child.pid, 'SIGKILL'), graceMs);
  await gone;
  clearTimeout(timer);
}

/** Waits until a process listens on a loopback port; fails immediately when `child` has exited. */
export async function waitForPort(port: number, child: ChildProcess, what: string, timeoutMs = 20_000): Promise<void> {
  await waitFor(
    () => {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${what} ended at its start`);
      return listens(port);
    },
    { timeoutMs, everyMs: 30, what: `${what} on port ${port}` },
  );
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
