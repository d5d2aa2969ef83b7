import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type Connected, connectLogin, connectUser, type Live, joinLive } from '../helpers/product/live.ts';
import { isLong } from '../helpers/runner/long.ts';
import { startLimitingProxy } from '../helpers/fakes/limiting-proxy.ts';
import { addUser, kick, type MailLogin } from '../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';
import { james } from '../helpers/servers/james.ts';
import { maddy } from '../helpers/servers/maddy.ts';
import { greenMail, type OtherServer, pymap } from '../helpers/servers/other-servers.ts';
import { differences } from './compare.ts';
import { LiveActors } from './live-actors.ts';

/**
 * Runs the scenarios of engine.test.ts with the whole product, by REST, on real servers. To replay, as far as possible:
 * CHAOS_SERVER=… CHAOS_SEED=… CHAOS_OPERATIONS=… npm test -- test/chaos/live.test.ts
 */

const { CHAOS_SERVER, CHAOS_SEED, CHAOS_SEEDS, CHAOS_OPERATIONS } = process.env;
const operations = Number(CHAOS_OPERATIONS ?? (isLong() ? 500 : 30));
const first = Number(CHAOS_SEED ?? 1);
const count = Number(CHAOS_SEEDS ?? (isLong() && CHAOS_SEED === undefined ? 5 : 1));
const seeds = Array.from({ length: count }, (_, index) => first + index);

/** What the store may be behind: several polls, and at last a thorough pass. */
const SETTLED_MS = isLong() ? 360_000 : 20_000;
const TIMEOUT_MS = 120_000 + SETTLED_MS + operations * 1_000;

let live: Live;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);
afterAll(() => live?.close());

async function openBox(login: MailLogin): Promise<Mailbox> {
  const box = await openMailbox(login);
  live.boxes.add(box);
  return box;
}

interface Server {
  open: () => Promise<Mailbox>;
  kick?: () => Promise<Mailbox>;
  keepsDates: boolean;
}

async function run(connected: Connected, seed: number, on: Server) {
  const actors = new LiveActors(live.api, connected, seed, on.open);
  await actors.act(operations, on.kick);
  const { account } = connected;
  const until = Date.now() + SETTLED_MS;
  for (;;) {
    const found = await differences(live.pool, account.id, await actors.readMailbox(), on);
    const all = [...found, ...actors.faults];
    if (found.length > 0 && Date.now() < until) {
      await sleep(500);
      continue;
    }
    if (all.length > 0) {
      const replay = `CHAOS_SEED=${seed} CHAOS_OPERATIONS=${operations} npm test -- test/chaos/live.test.ts`;
      console.error(`${replay}\n${actors.log.join('\n')}`);
    }
    expect(all).toEqual([]);
    return;
  }
}

const isChosen = (name: string) =>
  CHAOS_SERVER === undefined ? isLong() || name === 'Dovecot' : name.includes(CHAOS_SERVER);

if (isChosen('Dovecot')) {
  it.each(seeds)(
    'on Dovecot the store equals the mailbox, seed %i',
    async (seed) => {
      const connected = await connectUser(live);
      const open = () => openBox(connected.user);
      const again = async () => {
        await kick(connected.user);
        return open();
      };
      await run(connected, seed, { open, kick: again, keepsDates: true });
    },
    TIMEOUT_MS,
  );
}

/** More messages in INBOX than one command processes. */
const MESSAGES = 250;
const LIMIT = 100;

if (isChosen('MESSAGELIMIT')) {
  it.each(seeds)(
    'on a server with a MESSAGELIMIT the store equals the mailbox, seed %i',
    async (seed) => {
      const user = await addUser();
      const proxy = await startLimitingProxy(user.imapPort, LIMIT);
      const before = async (box: Mailbox) => {
        for (let older = 0; older < MESSAGES; older++) await box.append('INBOX', { subject: `older ${older}` });
      };
      try {
        const connected = await connectLogin(live, user, { before, imapPort: proxy.port });
        await run(connected, seed, { open: () => openBox(user), keepsDates: true });
      } finally {
        await proxy.close();
      }
    },
    TIMEOUT_MS,
  );
}

const others: [string, () => Promise<(() => Promise<OtherServer>) | undefined>][] = [
  ['GreenMail', greenMail],
  ['pymap', pymap],
  ['Apache James', james],
  ['maddy', maddy],
];

for (const [name, find] of others.filter(([each]) => isChosen(each))) {
  it.each(seeds)(
    `on ${name}, where it can be had, the store equals the mailbox, seed %i`,
    async (seed) => {
      const start = await find();
      if (!start) return;
      const server = await start();
      try {
        // None says that a copy keeps its date.
        const open = () => openBox(server.login);
        await run(await connectLogin(live, server.login), seed, { open, keepsDates: false });
      } finally {
        await server.stop();
      }
    },
    TIMEOUT_MS,
  );
}
