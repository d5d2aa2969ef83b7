import { join } from 'node:path';
import { embedPostgres } from '../src/embedded/postgres.ts';
import { createReport } from '../src/embedded/report.ts';
import { createSupervisor } from '../src/embedded/supervise.ts';
import { embedTemporal } from '../src/embedded/temporal.ts';
import { findTemporal } from '../src/embedded/temporal-binary.ts';
import { freePort } from '../test/helpers/servers/free-port.ts';
import type { Bounds, Figures } from './figures.ts';
import { type Bench, watchedMailboxes } from './ground/setup.ts';

const ACCOUNTS = 10;

/** `npm start` with data, until `/ready`; and how long its Postgres and Temporal take alone. */
export const restart = {
  title: `start of the built product with the data of ${ACCOUNTS} mailboxes`,
  bounds: { 'ready, s': { most: 4 } } satisfies Bounds,
  limits: { 'ready, s': 'Postgres and Temporal alone, s' },
  prepare: async (bench: Bench) => {
    await watchedMailboxes(bench, ACCOUNTS);
  },
  round: async (bench: Bench): Promise<Figures> => {
    let alone = Number.NaN;
    const ms = await bench.restart(async () => {
      alone = await serversAlone(bench);
    });
    return { 'ready, s': ms / 1000, '  Postgres and Temporal alone, s': alone / 1000 };
  },
};

/** Starts both at the same time on the data of the product, as it does, until both are ready; ms. */
async function serversAlone({ dir }: Bench): Promise<number> {
  const data = join(dir, 'data');
  const supervisor = createSupervisor({ logDir: join(dir, 'servers-alone'), printLine: () => {} });
  const binary = await findTemporal({ env: process.env, dataDir: data, report: createReport(process.stdout) });
  const postgres = await embedPostgres({ dir: data, port: await freePort(), printLine: () => {} });
  const temporal = embedTemporal({ binary, dbFile: join(data, 'temporal.db'), port: await freePort() });
  try {
    const began = performance.now();
    await Promise.all([postgres, temporal].map(({ part }) => supervisor.start(part)));
    return performance.now() - began;
  } finally {
    await supervisor.stop();
  }
}
