import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { sleep } from '../../../src/async.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { FakeImap } from '../../helpers/fakes/fake-imap.ts';
import { startFloodServer } from '../../helpers/fakes/flood-server.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../../helpers/product/watched-account.ts';

/** Mailboxes whose servers flood, connected again at once whenever that ends them: mail of another one comes in time. */

jest.setTimeout(120_000);

/** From the arrival at the server until the event is stored. */
const SOON_MS = 1_500;
const MAILS = 7;

let ground: SyncGround;
let server: FakeImap;
let neighbour: WatchedAccount;
beforeAll(async () => {
  ground = await openSyncGround();
  server = await new FakeImap().listen();
  neighbour = new WatchedAccount(ground, server.port, { pollMs: 5_000 });
  await neighbour.connect();
});
afterAll(async () => {
  await neighbour.stop();
  await server.close();
  await ground.close();
});

async function latency(): Promise<number> {
  const before = (await neighbour.summary()).length;
  const began = performance.now();
  server.add('INBOX', mailText());
  server.tell();
  await waitFor(async () => (await neighbour.summary()).length > before, { timeoutMs: 60_000, everyMs: 20 });
  return performance.now() - began;
}

describe('mail of a mailbox beside one that floods', () => {
  test.each(['short lines while idling', 'changed flags while idling', 'large literals', 'LIST lines'])(
    '%s',
    async (flood) => {
      const hostile = await startFloodServer();
      await hostile.flood(flood);
      let isOver = false;
      const account = new WatchedAccount(ground, hostile.port, { pollMs: 5_000 });
      const failures: unknown[] = [];
      const flooding = (async () => {
        while (!isOver) {
          const watched = failures.length === 0 ? account.connect() : account.start();
          const failed = await watched.then(() => account.failed(60_000)).catch((error: unknown) => error);
          failures.push(failed);
          await sleep(50);
        }
      })();
      const times: number[] = [];
      for (let count = 0; count < MAILS; count++) times.push(await latency());
      await waitFor(() => failures.length > 0, { timeoutMs: 60_000, what: 'the end of the flood' });
      isOver = true;
      await hostile.stop();
      await flooding;
      times.sort((a, b) => a - b);
      expect(times[Math.floor(MAILS / 2)]).toBeLessThan(SOON_MS);
      expect(failures[0]).toMatchObject({ code: 'provider_error', flooded: true });
    },
  );
});
