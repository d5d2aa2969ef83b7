import { setTimeout as sleep } from 'node:timers/promises';
import type { Email } from '../src/contract/email.ts';
import type { Folder } from '../src/contract/folder.ts';
import { addUser } from '../test/helpers/product/mail-user.ts';
import { openMailbox } from '../test/helpers/product/mailbox.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { benchMail } from './ground/mails.ts';
import { type Bench, type BenchMailbox, watchedMailboxes } from './ground/setup.ts';

const MAILS = 60;
/** Between two calls of a user who reads mail: the previous run, and the delivery of its event, have ended. */
const PAUSE_MS = 200;
const BOUND: Bounds[string] = { most: 30 };
const BOUND_99: Bounds[string] = { most: 250 };

const NAMES = ['read after a pause', 'unread after a pause', 'read', 'unread', 'modify', 'trash'];

let series = 0;

/** Changes of single emails by one caller who waits for each; the sessions of the pool are warm. */
export const operations = {
  title: `read, unread, modify and trash, one caller, ${MAILS} emails each`,
  bounds: Object.fromEntries(
    NAMES.flatMap((name) => [
      [`${name} p50, ms`, BOUND],
      [`${name} p99, ms`, BOUND_99],
    ]),
  ) satisfies Bounds,
  limits: Object.fromEntries(
    NAMES.map((name) => [`${name} p50, ms`, `${name.includes('read') ? 'STORE' : 'MOVE'} of an open session p50, ms`]),
  ),
  prepare: async (bench: Bench) => (await watchedMailboxes(bench, 1))[0] as BenchMailbox,
  round: async (bench: Bench, box: BenchMailbox): Promise<Figures> => {
    const { api } = bench;
    const { id: account } = box.account;
    const ids = await received(bench, box);
    const archive = (await api.get<{ data: Folder[] }>(`/${account}/folders`)).data.find(
      ({ role }) => role === 'ARCHIVE',
    );
    const email = (id: string) => `/${account}/emails/${id}`;
    await api.post(`${email(ids[0] as string)}/read`);
    await api.post(`${email(ids[0] as string)}/unread`);
    const timed = {
      'read after a pause': await time(ids, (id) => api.post(`${email(id)}/read`), PAUSE_MS),
      'unread after a pause': await time(ids, (id) => api.post(`${email(id)}/unread`), PAUSE_MS),
      read: await time(ids, (id) => api.post(`${email(id)}/read`)),
      unread: await time(ids, (id) => api.post(`${email(id)}/unread`)),
      modify: await time(ids, (id) => api.post(`${email(id)}/modify`, { folders_ids: [archive?.id] })),
      trash: await time(ids, (id) => api.delete(email(id))),
    };
    return {
      ...Object.fromEntries(
        Object.entries(timed).flatMap(([name, times]) => [
          [`${name} p50, ms`, percentile(times, 0.5)],
          [`${name} p99, ms`, percentile(times, 0.99)],
        ]),
      ),
      ...(await bare()),
    };
  },
};

/** The same IMAP commands in an open session, on a mailbox that is not watched. */
async function bare(): Promise<Figures> {
  const user = await addUser();
  const box = await openMailbox(user);
  const { client, close } = box;
  for (let number = 0; number < MAILS; number++)
    await box.append('INBOX', benchMail('bare', number, { to: user.user }));
  const uids = await box.uids('INBOX');
  await client.mailboxOpen('INBOX');
  const [byUid, ids] = [{ uid: true }, uids.map(String)];
  const stored = await time(ids, (uid) => client.messageFlagsAdd(uid, ['\\Seen'], byUid));
  const moved = await time(ids, (uid) => client.messageMove(uid, 'Archive', byUid));
  await close();
  return {
    '  STORE of an open session p50, ms': percentile(stored, 0.5),
    '  MOVE of an open session p50, ms': percentile(moved, 0.5),
  };
}

/** Appends mail and waits until it is ingested; returns its ids. */
async function received(bench: Bench, { user, imap, account }: BenchMailbox): Promise<string[]> {
  const name = `ops${process.pid}x${++series}`;
  const mails = Array.from({ length: MAILS }, (_, number) => benchMail(name, number, { to: user.user }));
  await imap.append('INBOX', mails);
  await bench.allReported(name, MAILS, 60_000);
  const inbox = await bench.api.folder(account.id, 'INBOX');
  const list = await bench.api.get<{ data: Email[] }>(
    `/${account.id}/folders/${inbox.id}/emails?limit=250&meta_only=true`,
  );
  return list.data.map(({ id }) => id).slice(0, MAILS);
}

/** The time of each call, ms, in sequence; `pauseMs` between them. */
async function time(ids: string[], call: (id: string) => Promise<unknown>, pauseMs = 0): Promise<number[]> {
  const times: number[] = [];
  for (const id of ids) {
    if (pauseMs > 0) await sleep(pauseMs);
    const began = performance.now();
    await call(id);
    times.push(performance.now() - began);
  }
  return times;
}
