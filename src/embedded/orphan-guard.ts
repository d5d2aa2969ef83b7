import { spawn } from 'node:child_process';

/** Ends the children of this process when it dies without ending them (SIGKILL, out of memory). */
export interface OrphanGuard {
  /** Replaces the list of guarded processes; each is the leader of its process group. */
  guard(pids: readonly number[]): void;
  /** To call when the children have ended: the guard exits without a signal. */
  release(): void;
}

/*
 * A shell of 1 MB reads lists of pids from a pipe whose other end only this process holds. End of file means that this
 * process is dead. The shell then sends SIGINT to the children (for Postgres the fast shutdown, for the others like
 * Ctrl-C) and kills the remaining ones after 6 s.
 */
const SCRIPT = `
last=
while IFS= read -r line; do last=$line; done
[ -n "$last" ] || exit 0
for pid in $last; do kill -INT "-$pid"; done 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  left=
  for pid in $last; do kill -0 "-$pid" && left=1; done 2>/dev/null
  [ -n "$left" ] || exit 0
  sleep 0.5
done
for pid in $last; do kill -KILL "-$pid"; done 2>/dev/null
exit 0
`;

/** Starts the shell, in its own session, which Ctrl-C does not reach. */
export function createOrphanGuard(): OrphanGuard {
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { PATH: '/usr/bin:/bin' },
  });
  shell.on('error', () => {});
  shell.stdin.on('error', () => {});
  shell.unref();
  return {
    guard: (pids) => void shell.stdin.write(`${pids.join(' ')}\n`),
    release: () => void shell.stdin.end('\n'),
  };
}
