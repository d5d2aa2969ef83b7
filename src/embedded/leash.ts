import { spawn } from 'node:child_process';

/** Ends what we started when we are gone without a chance to do it ourselves (SIGKILL, out of memory). */
export interface Leash {
  /** From now on it is these processes, each the leader of its group. */
  hold(pids: readonly number[]): void;
  /** All ended in order: nothing is left to do. */
  release(): void;
}

/*
 * A shell of 1 MB reads lists of pids from a pipe that only we hold open. Its end means that we are gone. It gives the
 * children SIGINT (for Postgres the fast shutdown, for the others the same as Ctrl-C) and kills what is left after 6 s.
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

/** Starts the watching shell, in a session of its own so that no Ctrl-C reaches it. */
export function createLeash(): Leash {
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { PATH: '/usr/bin:/bin' },
  });
  shell.on('error', () => {});
  shell.stdin.on('error', () => {});
  shell.unref();
  return {
    hold: (pids) => void shell.stdin.write(`${pids.join(' ')}\n`),
    release: () => void shell.stdin.end('\n'),
  };
}
