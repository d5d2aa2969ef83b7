import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Bounds, Figures } from './figures.ts';
import { benchMail } from './ground/mails.ts';
import { type Bench, type BenchMailbox, databaseClient, watchedMailboxes } from './ground/setup.ts';

const MAILS = 1_024;
const PER_SECOND = 4;
const ENDPOINTS = 3;
/** Tables of fewer bytes a mail have no line. */
const LISTED = 200;

interface Ground {
  boxes: BenchMailbox[];
  client: pg.Client;
}

/** What mails that trickle in leave in the store, three endpoints included. */
export const store = {
  title: `Growth of the store by an email of 10 KB: ${MAILS} at ${PER_SECOND}/s over 10 accounts, ${ENDPOINTS} endpoints`,
  bounds: { 'write-ahead log, KB a mail': { most: 60 }, 'Postgres, KB a mail': { most: 45 } } satisfies Bounds,
  rounds: 1,
  prepare: async (bench: Bench): Promise<Ground> => {
    const boxes = await watchedMailboxes(bench, 10);
    for (let number = 1; number < ENDPOINTS; number++) {
      await bench.api.post('/webhooks/endpoints', {
        url: `${bench.receiver.url}/${number}`,
        trigger_events: ['email.new'],
      });
    }
    const ground = { boxes, client: await databaseClient(bench) };
    // tables and indexes have their first pages
    await trickle(bench, ground, { mails: 2_000, perSecond: 200 });
    return ground;
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    await ground.client.query('checkpoint');
    const [before, files] = [await sizes(ground), await countFiles(bench)];
    await trickle(bench, ground, { mails: MAILS, perSecond: PER_SECOND });
    const [after, filesAfter] = [await sizes(ground), await countFiles(bench)];
    const perMail = (name: string) => ((after.get(name) ?? 0) - (before.get(name) ?? 0)) / MAILS;
    const tables = [...after.keys()].filter((name) => !name.startsWith(' '));
    return {
      'write-ahead log, KB a mail': perMail(' wal') / 1024,
      'Postgres, KB a mail': tables.reduce((sum, name) => sum + perMail(name), 0) / 1024,
      ...Object.fromEntries(
        tables
          .filter((name) => perMail(name) > LISTED)
          .sort((a, b) => perMail(b) - perMail(a))
          .map((name) => [`  ${name}, KB a mail`, perMail(name) / 1024]),
      ),
      'files a mail': (filesAfter - files) / MAILS,
    };
  },
};

async function trickle(
  bench: Bench,
  { boxes }: Ground,
  { mails, perSecond }: { mails: number; perSecond: number },
): Promise<void> {
  const series = `store${randomBytes(4).toString('hex')}`;
  const began = Date.now();
  for (let number = 0; number < mails; number++) {
    await sleep(Math.max(0, began + (number * 1000) / perSecond - Date.now()));
    const { user, imap } = boxes[number % boxes.length] as BenchMailbox;
    await imap.append('INBOX', [benchMail(series, number, { to: user.user })]);
  }
  await bench.allReported(series, mails, 120_000);
}

/** Bytes of each table with its indexes, and of the write-ahead log since the cluster began as ` wal`. */
async function sizes({ client }: Ground): Promise<Map<string, number>> {
  const { rows } = await client.query<{ name: string; bytes: string }>(`
    select relname as name, pg_total_relation_size(oid) as bytes from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace
    union all select ' wal', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')`);
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

async function countFiles({ dir }: Bench): Promise<number> {
  const entries = await readdir(join(dir, 'data', 'storage'), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).length;
}
