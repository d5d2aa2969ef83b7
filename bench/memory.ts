import { setTimeout as sleep } from 'node:timers/promises';
import type { Figures } from './figures.ts';
import { byPart, cpuMsOf, processTree } from './process-tree.ts';
import { type Bench, watchedMailboxes } from './setup.ts';

const ACCOUNTS = 50;
/** What connecting needed has been given back by then, and the figures of the notes were taken so. */
const REST_MS = 35_000;

/** Memory of every process with 0, 1 and 50 idle accounts; shared pages counted once (PSS). */
export const memory = {
  title: `memory with ${ACCOUNTS} accounts connected and idle, MiB`,
  rounds: 1,
  prepare: async () => undefined,
  round: async (bench: Bench): Promise<Figures> => {
    const figures: Figures = {};
    const totals: number[] = [];
    let accounts = 0;
    for (const wanted of [0, 1, ACCOUNTS]) {
      await watchedMailboxes(bench, wanted - accounts);
      accounts = wanted;
      await sleep(REST_MS / 2);
      const cpuBefore = cpuMsOf(bench.pid);
      await sleep(REST_MS / 2);
      const cpu = cpuMsOf(bench.pid) - cpuBefore;
      const processes = processTree(bench.pid);
      const total = processes.reduce((sum, { pssBytes }) => sum + pssBytes, 0) / 1024 / 1024;
      totals.push(total);
      figures[`${wanted} accounts, all processes`] = total;
      for (const [name, { pssBytes }] of byPart(processes)) {
        figures[`  ${name} (${wanted})`] = pssBytes / 1024 / 1024;
      }
      figures[`  CPU, % of a core (${wanted})`] = (cpu / (REST_MS / 2)) * 100;
    }
    const [, one = 0, many = 0] = totals;
    figures['per account'] = (many - one) / (ACCOUNTS - 1);
    return figures;
  },
};
