import type { Account } from '../src/contract/account.ts';
import type { EmailBatch } from '../src/contract/email.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import type { Bounds, Figures } from './figures.ts';
import { benchMail } from './ground/mails.ts';
import { byPart, cpuOfParts, processTree } from './ground/process-tree.ts';
import { type Bench, type BenchMailbox, databaseClient } from './ground/setup.ts';

const MAILS = Number(process.env.BENCH_MAILS ?? 10_000);
const SLOW_MS = 600_000;

interface Ground {
  box: BenchMailbox;
  /** how many deliveries wait */
  waiting: () => Promise<number>;
  isStarred: boolean;
}

/** One call that changes all emails of a mailbox; an endpoint gets the event of each. */
export const batches = {
  title: `a batch of ${MAILS} emails of 10 KB, on Dovecot`,
  bounds: { seconds: { most: 10 } } satisfies Bounds,
  prepare: async (bench: Bench): Promise<Ground> => {
    const client = await databaseClient(bench);
    const mails = (to: string) => Array.from({ length: MAILS }, (_, number) => benchMail('batch', number, { to }));
    const box = await bench.mailbox({
      connect: { config: { initial_sync_enable: true } },
      fill: (imap, { user }) => imap.fill('INBOX', mails(user)),
    });
    const account = () => bench.api.get<Account>(`/accounts/${box.account.id}`);
    await waitFor(async () => (await account()).initial_sync?.status === 'completed', {
      timeoutMs: SLOW_MS,
      everyMs: 500,
      what: 'the initial sync',
    });
    const waiting = async () => {
      const { rows } = await client.query<{ count: number }>('select count(*)::int as count from pending_deliveries');
      return rows[0]?.count ?? 0;
    };
    return { box, waiting, isStarred: false };
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const { box, waiting } = ground;
    ground.isStarred = !ground.isStarred;
    const path = `/${box.account.id}/emails/batch`;
    const parts = () => byPart(processTree(bench.pid));
    const before = parts();
    const began = performance.now();
    const change = { is_starred: ground.isStarred };
    const { id } = await bench.api.post<EmailBatch>(path, { filter: { has_attachment: false }, change });
    const batch = () => bench.api.get<EmailBatch>(`/${box.account.id}/batches/${id}`);
    await waitFor(async () => (await batch()).status === 'completed', {
      timeoutMs: SLOW_MS,
      everyMs: 50,
      what: 'the batch',
    });
    const seconds = (performance.now() - began) / 1000;
    const { changed } = await batch();
    await waitFor(async () => (await waiting()) === 0, { timeoutMs: SLOW_MS, everyMs: 250, what: 'the deliveries' });
    return {
      seconds,
      'emails/s': changed / seconds,
      'seconds until all events are delivered': (performance.now() - began) / 1000,
      ...cpuOfParts('CPU ms per email', { before, after: parts(), count: MAILS }),
    };
  },
};
