import { setTimeout as sleep } from 'node:timers/promises';
import { type Lease, takeLease } from '../../src/db/coordination/lease.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { type ImapSession, openSession } from '../../src/imap/session.ts';
import { scanBaseline } from '../../src/mailbox/baseline.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { createFolderRefusals } from '../../src/mailbox/refusals.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { findWrongThreadSummaries } from '../../src/mailbox/store/thread-summaries.ts';
import { watch } from '../../src/mailbox/watch.ts';
import type { MailboxDeps } from '../../src/mailbox/with-mailbox.ts';
import { newId } from '../../src/new-id.ts';
import { FakeGmail } from '../helpers/fakes/fake-gmail.ts';
import { FakeImap, type FakeImapOptions } from '../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../helpers/fakes/fake-imap-session.ts';
import type { Command } from '../helpers/fakes/fake-imap-wire.ts';
import { headerFields } from '../helpers/fakes/fake-imap-wire.ts';
import { LOOPBACK } from '../helpers/product/mail-session.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import type { SyncGround } from '../helpers/product/watched-account.ts';
import { type ApiCall, ApiCalls, isExpected } from './api-calls.ts';
import { comparedFlags, differences, NAMING_FIELDS, type ServerFolder } from './compare.ts';
import { OtherProgram, type OtherProgramOptions } from './other-program.ts';
import { Random } from './random.ts';

/** A kind of server, and how it is used. */
export interface Mode extends FakeImapOptions, OtherProgramOptions {
  gmail?: boolean;
  /** a few of these commands are refused */
  refuses?: RegExp;
}

/** What a run came to. */
export interface Outcome {
  differences: string[];
  /** what was done, in its order as far as there is one */
  log: string[];
}

/** Calls of the API at one time; the pool opens as many connections. */
const CALLS_AT_ONCE = 3;
const PASSES = 8;

/**
 * One mailbox on a scripted server under `operations` random operations: those of other mail programs, calls of the API,
 * and kills, while the engine watches it. Then the watch ends, sync passes are made, and the store is compared. What the
 * actors choose follows from the seed; which of them is first when they meet does not.
 */
export async function runEngine(ground: SyncGround, mode: Mode, seed: number, operations: number): Promise<Outcome> {
  const run = new EngineRun(ground, mode, seed);
  try {
    await run.connect();
    await run.chaos(operations);
    return await run.settle();
  } finally {
    await run.close();
  }
}

/** What was done, with the milliseconds since the start. */
class Log {
  readonly lines: string[] = [];
  private readonly start = Date.now();

  push(line: string): void {
    this.lines.push(`${String(Date.now() - this.start).padStart(6)} ${line}`);
  }
}

/** One account with its watch. */
export class EngineRun {
  readonly log = new Log();
  readonly server: FakeImap;
  readonly other: OtherProgram;
  readonly calls: ApiCalls;
  private readonly ground: SyncGround;
  private readonly mode: Mode;
  private readonly random: Random;
  private readonly accountId = newId('account');
  private readonly deps: MailboxDeps;
  private readonly faults: string[] = [];
  private readonly running = new Set<Promise<void>>();
  private readonly watches = new Set<Promise<void>>();
  private stopWatch = new AbortController();

  constructor(ground: SyncGround, mode: Mode, seed: number) {
    this.ground = ground;
    this.mode = mode;
    this.random = new Random(seed);
    this.server = mode.gmail ? new FakeGmail() : new FakeImap({ folders: FOLDERS, ...mode });
    this.other = new OtherProgram(this.server, new Random(seed + 1), mode);
    this.deps = mailboxDeps(ground, CALLS_AT_ONCE);
    this.calls = new ApiCalls(this.deps, this.accountId, new Random(seed + 2));
  }

  /** Saves the account, with a few messages as its baseline. */
  async connect(): Promise<void> {
    const { server, accountId: id } = this;
    for (let count = 0; count < 5; count++) this.other.arrive(count % 2 ? 'INBOX' : 'Work');
    await sleep(2 * (this.mode.announcesMs ?? 0));
    await server.listen();
    const session = await this.session();
    const folders = await listFoldersWithStatus(session);
    await session.end();
    await storeServedAccount(this.deps, id, { port: server.port, folders });
    await this.onSession((ctx) => scanBaseline(ctx, new AbortController().signal));
    this.server.script.command = (command, session) => this.meddle(command, session);
    this.startWatch();
  }

  private session(): Promise<ImapSession> {
    const login = { host: '127.0.0.1', port: this.server.port, user: 'reader@example.test', password: 'p' };
    return openSession(
      { ...login, encryption: 'NONE' },
      { outbound: LOOPBACK, connectTimeoutMs: 10_000, silenceMs: 15_000 },
    );
  }

  private async onSession<T>(work: (ctx: SyncContext) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { db, storage, parser, logger, tempDir, undelivered } = this.deps;
    const lease = (await takeLease(db, this.accountId)) as Lease;
    const session = await this.session();
    signal?.addEventListener('abort', () => session.client.close());
    const account = { id: this.accountId, ownAddresses: ['reader@example.test'], connectedAt: new Date() };
    const refusals = createFolderRefusals(this.accountId, logger);
    const rest = { lease, account, refusals, undelivered, reopen: () => this.session(), baselineKnown: () => true };
    try {
      return await work({ db, storage, parser, logger, tempDir, session, ...rest });
    } finally {
      await session.end();
    }
  }

  /** Watches until `stopWatch`, again after each failure; one that lost the account to a later one ends. */
  private startWatch(): void {
    const stop = new AbortController();
    this.stopWatch = stop;
    const loop = async () => {
      while (!stop.signal.aborted) {
        try {
          await this.onSession((ctx) => watch(ctx, { pollMs: 60, signal: stop.signal, onInSync: async () => {} }));
        } catch (error) {
          this.note('the watch', error);
          await sleep(10);
        }
      }
    };
    const ended = loop().finally(() => this.watches.delete(ended));
    this.watches.add(ended);
  }

  private note(what: string, error: unknown): void {
    this.log.push(`${what} ended with ${String(error)}`);
    if (!isExpected(error)) this.faults.push(`${what} ended with ${(error as Error).stack ?? String(error)}`);
  }

  async chaos(operations: number): Promise<void> {
    for (let count = 0; count < operations; count++) {
      const kind = this.random.weighted({ other: 55, api: 35, kill: 4, rest: 6 });
      if (kind === 'other') this.log.push(`other ${this.other.act()}`);
      else if (kind === 'api') await this.api();
      else if (kind === 'kill') this.kill();
      else await sleep(this.random.below(60));
      if (this.random.chance(0.4)) await sleep(this.random.below(12));
    }
  }

  private async api(): Promise<void> {
    while (this.running.size >= CALLS_AT_ONCE) await Promise.race(this.running);
    const call = await this.calls.next();
    if (!call) return;
    this.log.push(`api ${call.name}`);
    this.start(call);
    // The process died as far as others know: the call is made again while it still runs.
    if (this.random.chance(0.04)) this.start(call);
  }

  start(call: ApiCall): void {
    const ended = this.calls
      .run(call)
      .then(
        (how) => this.log.push(`api ${call.name}: ${how}`),
        (error) => this.note(`api ${call.name}`, error),
      )
      .finally(() => this.running.delete(ended));
    this.running.add(ended);
  }

  /** commands that the server answers before it meddles with one */
  private meddleAfter = Infinity;
  private how: 'before' | 'after' | 'half' = 'before';

  private kill(): void {
    const kind = this.random.weighted({ command: 6, socket: 2, takeOver: 2, abort: 1 });
    this.log.push(`kill ${kind}`);
    if (kind === 'command') {
      this.meddleAfter = this.random.below(25);
      this.how = this.random.pick(['before', 'after', 'half'] as const) ?? 'before';
    } else if (kind === 'socket') this.random.pick([...this.server.sessions])?.socket.destroy();
    else {
      const before = this.stopWatch;
      this.startWatch();
      if (kind === 'abort') before.abort();
      // It continues until it learns that another worker has taken the account over.
      else setTimeout(() => before.abort(), this.random.below(100));
    }
  }

  private meddle(command: Command, session: FakeSession): boolean {
    const { refuses } = this.mode;
    if (refuses?.test(command.name) && this.random.chance(0.03)) {
      this.log.push(`refused ${command.name}`);
      if (/^(SELECT|EXAMINE)$/.test(command.name)) session.selected = undefined;
      session.done(command, this.random.chance(0.5) ? 'NO not now' : 'BAD not so');
      return true;
    }
    if (/^(UID (MOVE|COPY)|APPEND)$/.test(command.name) && this.random.chance(0.05)) {
      session.answer(command);
      this.other.expungeNewest(String(command.args[command.name === 'APPEND' ? 0 : 1]));
      this.server.tell();
      return true;
    }
    if (this.meddleAfter-- > 0) return false;
    this.meddleAfter = Infinity;
    this.log.push(`killed ${this.how} ${command.name}`);
    if (this.how === 'half') {
      this.server.script.answer = (text, _command, of) => (of === session ? text.slice(0, text.length / 2) : text);
    }
    if (this.how !== 'before') session.answer(command);
    delete this.server.script.answer;
    if (this.how === 'half') session.socket.end();
    else session.socket.destroy();
    return true;
  }

  /** Waits until the calls that were started have ended. */
  async callsEnded(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** Ends all that runs, makes sync passes, and compares. */
  async settle(): Promise<Outcome> {
    this.meddleAfter = Infinity;
    this.log.push('settling');
    await this.callsEnded();
    this.stopWatch.abort();
    await Promise.all(this.watches);
    this.log.push('the watch has ended');
    this.server.script = {};
    await sleep(2 * (this.mode.announcesMs ?? 0));
    await this.deps.sessions.close();
    // Marks of calls that were given up count for two minutes.
    await this.pool.query(`update locations set pending_removal_since = now() - interval '1 hour'
      where pending_removal_since is not null`);
    let found: string[] = [];
    for (let pass = 1; pass <= PASSES; pass++) {
      await this.onSession((ctx) => syncMailbox(ctx, { freshSession: true, thorough: true }));
      if (pass < 3) continue;
      found = await differences(this.pool, this.accountId, this.mailbox(), { keepsDates: !this.mode.losesDates });
      const threads = await findWrongThreadSummaries(this.deps.db, this.accountId);
      found.push(...threads.map((id) => `the summary of the thread ${id} is wrong`));
      this.log.push(`pass ${pass}: ${found.length} differences`);
      if (found.length === 0) break;
    }
    return { differences: [...found, ...this.faults], log: this.log.lines };
  }

  private get pool() {
    return this.ground.database.database.pool;
  }

  /** What the server has. */
  private mailbox(): ServerFolder[] {
    return [...this.server.folders.values()]
      .filter(({ attributes }) => !attributes.includes('\\Noselect'))
      .map(({ path, messages }) => ({
        path,
        messages: messages.map(({ uid, flags, source, date }) => ({
          ...{ uid, date, size: source.length, ...comparedFlags(flags) },
          header: headerFields(source, NAMING_FIELDS).toString('latin1'),
        })),
      }));
  }

  async close(): Promise<void> {
    this.stopWatch.abort();
    this.meddleAfter = Infinity;
    await this.server.close();
    await Promise.allSettled([...this.watches, ...this.running]);
    await this.deps.sessions.close();
  }
}

const FOLDERS = { Work: [], Later: [], Sent: ['\\Sent'], Drafts: ['\\Drafts'], Trash: ['\\Trash'] };
