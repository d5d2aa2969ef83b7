import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Figures } from './figures.ts';
import { processTree } from './ground/process-tree.ts';
import { type Bench, watchedMailboxes } from './ground/setup.ts';

const ACCOUNTS = Number(process.env.BENCH_ACCOUNTS ?? 120);
/** Minutes at rest. Longer than a watch lasts (at most 112), the rate is that of normal operation. */
const REST_MINUTES = Number(process.env.BENCH_REST_MINUTES ?? 15);

/** The minutes after a restart in which its logins are counted. */
const RESTART_MINUTES = 3;

/** IMAP logins of idle accounts after the worker was killed, and at rest, from the mail server's log. */
export const logins = {
  title: `IMAP logins of ${ACCOUNTS} idle accounts`,
  rounds: 1,
  prepare: async (bench: Bench) => {
    await watchedMailboxes(bench, ACCOUNTS);
  },
  round: async (bench: Bench): Promise<Figures> => {
    const before = (await loginTimes(bench)).length;
    for (const { pid, name } of processTree(bench.pid)) if (name === 'worker') process.kill(pid, 'SIGKILL');
    await sleep(RESTART_MINUTES * 60_000);
    const restart = (await loginTimes(bench)).slice(before);
    await sleep(REST_MINUTES * 60_000);
    const rest = (await loginTimes(bench)).length - before - restart.length;
    return {
      [`restart: logins within ${RESTART_MINUTES} minutes`]: restart.length,
      'restart: most in one second': most(restart, 1),
      'restart: most in one minute': most(restart, 60),
      [`rest: logins in ${REST_MINUTES} minutes`]: rest,
      'rest: logins an hour and account': (rest / ACCOUNTS) * (60 / REST_MINUTES),
    };
  },
};

/** When logins were accepted, in seconds of a day, ascending. */
export async function loginTimes({ dir }: Bench): Promise<number[]> {
  const text = await readFile(join(dir, 'mail', 'dovecot', 'dovecot.log'), 'utf8');
  return [...text.matchAll(/(\d\d):(\d\d):(\d\d) imap-login: Info: (?:Login|Logged in):/g)]
    .map(([, hours, minutes, seconds]) => Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds))
    .sort((a, b) => a - b);
}

/** The most logins within a window of `seconds`. */
function most(times: number[], seconds: number): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + seconds).length));
}
