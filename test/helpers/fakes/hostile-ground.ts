import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, beforeEach, expect, jest } from '@jest/globals';
import { MailError } from '../../../src/mail-wire/mail-error.ts';
import { FakeImap, PLAIN, type Script } from './fake-imap.ts';
import { isLong } from '../runner/long.ts';
import { mailText } from '../product/mail-text.ts';
import { waitFor } from '../assert/wait.ts';
import { openSyncGround, type SyncGround, WatchedAccount, type WatchSettings } from '../product/watched-account.ts';

const MiB = 1024 * 1024;
/** The limits of one step, lowered: the flood and its target share one slow event loop here. */
const IMPATIENT = { pollMs: 300, silenceMs: 600, maxStepMs: 2_000, maxResponses: isLong() ? 20_000 : 4_000 };

/**
 * For each test, a server that the test turns hostile, with an account on it; for the whole file, a good server with an
 * account that must not be affected.
 */
export class HostileGround {
  server!: FakeImap;
  account!: WatchedAccount;
  private ground!: SyncGround;
  private neighbour!: { server: FakeImap; account: WatchedAccount };

  constructor() {
    jest.setTimeout(180_000);
    beforeAll(async () => {
      this.ground = await openSyncGround();
      const server = await new FakeImap().listen();
      this.neighbour = { server, account: new WatchedAccount(this.ground, server.port, { pollMs: 1_000 }) };
      await this.neighbour.account.connect();
    });
    afterAll(async () => {
      await this.neighbour.account.stop();
      await this.neighbour.server.close();
      expect(this.neighbour.account.failure).toBeUndefined();
      await this.ground.close();
    });
    beforeEach(async () => {
      this.server = await new FakeImap({ capabilities: `${PLAIN} CONDSTORE QRESYNC`, folders: { Work: [] } }).listen();
      this.server.add('INBOX', mailText({ subject: 'old' }));
      this.newAccount(IMPATIENT);
    });
    afterEach(async () => {
      await this.account.stop();
      await this.server.close();
    });
  }

  newAccount(settings: WatchSettings): void {
    this.account = new WatchedAccount(this.ground, this.server.port, settings);
  }

  /** Checks that another account of the same process is not affected. */
  private async expectNeighbourWell(): Promise<void> {
    const { account, server } = this.neighbour;
    const before = (await account.summary()).length;
    server.add('INBOX', mailText());
    server.tell();
    await waitFor(async () => (await account.summary()).length > before, { timeoutMs: 60_000, what: 'the neighbour' });
  }

  /** Runs into the script while new mail arrives; returns the error of the watch. */
  async failureOf(script: Script): Promise<MailError> {
    const before = held();
    const rss = process.memoryUsage().rss;
    await this.account.connect();
    this.server.add('INBOX', mailText({ subject: 'new' }));
    this.server.script = script;
    this.server.tell();
    const error = await this.account.failed(60_000);
    expect(error).toBeInstanceOf(MailError);
    expect(error).toMatchObject({ code: 'provider_error', side: 'imap' });
    // The flooding server is in this process too, and collection takes a while: some memory may remain, but little may
    // be retained.
    expect(process.memoryUsage().rss - rss).toBeLessThan(1024 * MiB);
    expect(held() - before).toBeLessThan(100 * MiB);
    await this.expectNeighbourWell();
    return error as MailError;
  }
}

/** Bytes that are still in use once the collector has run. */
function held(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
