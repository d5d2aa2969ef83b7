import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Account } from '../src/contract/account.ts';
import { run } from '../test/helpers/product/child.ts';
import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import type { Bounds, Figures } from './figures.ts';
import { benchMail } from './ground/mails.ts';
import { cpuMsOf, processTree } from './ground/process-tree.ts';
import { rawImap } from '../test/helpers/servers/raw-imap.ts';
import type { Bench } from './ground/setup.ts';

/** `BENCH_MAILS=100000` for a large mailbox. */
const MAILS = Number(process.env.BENCH_MAILS ?? 20_000);

/** The import of a mailbox of mails of 10 KB, and mbsync of the same mailbox in the same round. */
export const initialSync = {
  title: `initial sync of ${MAILS} mails of 10 KB`,
  bounds: { 'times as long as mbsync': { most: 4 } } satisfies Bounds,
  prepare: async (): Promise<MailUser> => {
    const user = await addUser();
    const imap = await rawImap(user);
    const series = `init${randomBytes(4).toString('hex')}`;
    const mails = function* () {
      for (let index = 0; index < MAILS; index++) {
        yield benchMail(series, index, { to: user.user, date: new Date(Date.now() - 3_600_000 - index * 1_000) });
      }
    };
    await imap.fill('INBOX', mails());
    imap.close();
    return user;
  },
  round: async (bench: Bench, user: MailUser): Promise<Figures> => {
    const mbsyncMs = await mbsync(join(bench.dir, 'mbsync'), user);
    const worker = () => processTree(bench.pid).find(({ name }) => name === 'worker')?.rssBytes ?? 0;
    const before = worker();
    const samples: number[] = [];
    const cpuBefore = cpuMsOf(bench.pid);
    const began = Date.now();
    const account = await bench.api.connect(user, { config: { initial_sync_enable: true } });
    await waitFor(
      async () => {
        samples.push(worker());
        const { initial_sync: sync } = await bench.api.get<Account>(`/accounts/${account.id}`);
        if (sync?.status === 'failed') throw new Error('the initial sync failed');
        return sync?.status === 'completed' && sync.imported === MAILS;
      },
      { timeoutMs: 1_200_000, everyMs: 500, what: 'the initial sync' },
    );
    const ms = Date.now() - began;
    const cpu = cpuMsOf(bench.pid) - cpuBefore;
    await bench.api.delete(`/accounts/${account.id}`);
    const megabytes = (bytes: number) => bytes / 1024 / 1024;
    // constant: the second half needs no more than the first
    const half = Math.floor(samples.length / 2);
    return {
      seconds: ms / 1000,
      'mails/s': MAILS / (ms / 1000),
      'mbsync, seconds': mbsyncMs / 1000,
      'times as long as mbsync': ms / mbsyncMs,
      'CPU ms per mail': cpu / MAILS,
      'worker before, MiB': megabytes(before),
      'most in the first half, MiB': megabytes(Math.max(...samples.slice(0, half))),
      'most in the second half, MiB': megabytes(Math.max(...samples.slice(half))),
    };
  },
};

/** Copies the INBOX into an empty Maildir with isync's own defaults; returns how long it took, ms. */
async function mbsync(dir: string, user: MailUser): Promise<number> {
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  const config = `
IMAPAccount far
Host 127.0.0.1
Port ${user.imapPort}
User ${user.user}
Pass ${user.password}
SSLType None
AuthMechs LOGIN

IMAPStore far
Account far

MaildirStore near
Path ${dir}/
Inbox ${dir}/INBOX

Channel all
Far :far:
Near :near:
Patterns INBOX
Create Near
Sync Pull
SyncState *
`;
  await writeFile(join(dir, 'mbsyncrc'), config);
  const began = Date.now();
  await run('mbsync', ['-q', '-c', join(dir, 'mbsyncrc'), 'all'], { maxBuffer: 64 * 1024 * 1024 });
  const took = Date.now() - began;
  await rm(dir, { recursive: true, force: true });
  return took;
}
