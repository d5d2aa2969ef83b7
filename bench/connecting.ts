import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { openMailbox } from '../test/helpers/product/mailbox.ts';
import type { Bounds, Figures } from './figures.ts';
import { byPart, cpuOfParts, processTree } from './ground/process-tree.ts';
import type { Bench } from './ground/setup.ts';

const ACCOUNTS = 100;
const AT_A_TIME = 8;

/** Connects mailboxes by eight callers, until each call has returned a connected account. */
export const connecting = {
  title: `${ACCOUNTS} mailboxes connected by ${AT_A_TIME} callers`,
  bounds: { 'connected/s': { least: 25 } } satisfies Bounds,
  limits: { 'connected/s': 'logins of Dovecot, with a LIST, /s' },
  prepare: (): Promise<null> => Promise.resolve(null),
  round: async (bench: Bench): Promise<Figures> => {
    const users = await Promise.all(Array.from({ length: ACCOUNTS }, () => addUser()));
    const before = byPart(processTree(bench.pid));
    const rate = await inTurn(users, (user) => bench.api.connect(user));
    const after = byPart(processTree(bench.pid));
    const bare = await inTurn(users, async (user) => {
      const { client, close } = await openMailbox(user);
      await client.list();
      await close();
    });
    return {
      'connected/s': rate,
      '  logins of Dovecot, with a LIST, /s': bare,
      ...cpuOfParts('CPU ms each', { before, after, count: ACCOUNTS }),
    };
  },
};

/** Runs `work` for all users; returns the rate per second. */
async function inTurn(users: MailUser[], work: (user: MailUser) => Promise<unknown>): Promise<number> {
  const left = [...users];
  const began = performance.now();
  const next = async () => {
    for (let user = left.pop(); user; user = left.pop()) await work(user);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, next));
  return (users.length / (performance.now() - began)) * 1000;
}
