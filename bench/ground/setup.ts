import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { Account } from '../../src/contract/account.ts';
import type { EventType } from '../../src/contract/events.ts';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { Api, ApiFailure, type ConnectOptions } from '../../test/helpers/product/api.ts';
import type { DovecotInfo } from '../../test/helpers/servers/dovecot.ts';
import { freePort } from '../../test/helpers/servers/free-port.ts';
import { addUser, type MailUser } from '../../test/helpers/product/mail-user.ts';
import { startMailServers } from '../../test/helpers/servers/mail-servers.ts';
import { type Call, emailOf, type Receiver, startReceiver } from '../../test/helpers/fakes/receiver.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import { benchMail, benchMessageId } from './mails.ts';
import { type RawImap, rawImap } from '../../test/helpers/servers/raw-imap.ts';

/** The built product as `npm start` runs it, with mail servers and a receiver beside it. */
export interface Bench extends Reporter<Account> {
  api: Api;
  receiver: Receiver;
  /** the process whose tree is the whole product, Postgres and Temporal included */
  pid: number;
  /** those whose trees are the mail servers */
  mailPids: number[];
  /** Restarts the product with the same data; returns the ms from its start until it was ready. `pid` is then outdated. */
  restart(whileStopped: () => Promise<void>): Promise<number>;
  dir: string;
  /** a short run, to check that it works */
  short?: boolean;
  /** further clean-up after the measurement */
  alsoStop: (() => Promise<void>)[];
  stop(): Promise<void>;
}

/** A mailbox, connected to a product. */
export interface ConnectedMailbox<A extends { id: string } = { id: string }> {
  user: MailUser;
  account: A;
  imap: RawImap;
}

export type BenchMailbox = ConnectedMailbox<Account>;

/** What reports the new mail of mailboxes: the product, or another one. */
export interface Reporter<A extends { id: string } = { id: string }> {
  /** Creates a mailbox, fills it if requested, and connects it. */
  mailbox(options?: MailboxOptions): Promise<ConnectedMailbox<A>>;
  /** When a mail was first reported, ms since 1970; undefined before. */
  reportedAt(messageId: string): number | undefined;
  /** Waits until every mail of a series was reported. */
  allReported(series: string, count: number, timeoutMs: number): Promise<void>;
  /** How often mails of a series were reported. */
  reportsOf(series: string): number;
}

export interface MailboxOptions {
  fill?: (imap: RawImap, user: MailUser) => Promise<void>;
  dovecot?: DovecotInfo;
  /** of its address */
  domain?: string;
  connect?: ConnectOptions;
}

const ENTRY = join(projectRoot(), 'dist', 'start.js');

const HEARD: EventType[] = [
  'email.new',
  'email.new.bounce',
  'email.update',
  'email.delete',
  'account.status.running',
  'account.status.errored',
  'account.status.disconnected',
];

/** Starts everything in a temporary folder. Throws when the product is not built. */
export async function startBench(settings: Record<string, string> = {}): Promise<Bench> {
  if (!existsSync(ENTRY)) throw new Error('the product is not built: npm run build');
  const dir = await mkdtemp(join(tmpdir(), 'bench-'));
  await chmod(dir, 0o755);
  const mail = await startMailServers(join(dir, 'mail'), console.log);
  Object.assign(process.env, mail.env);
  const port = await freePort();
  const key = `bench-${randomBytes(24).toString('hex')}`;
  const env = {
    ...process.env,
    DATA_DIR: join(dir, 'data'),
    PORT: String(port),
    TEMPORAL_UI_PORT: String(await freePort()),
    BOOTSTRAP_API_KEY: key,
    LOG_LEVEL: 'warn',
    ...settings,
  };
  let product = spawnProduct(dir, env);
  const receiver = await startReceiver();
  const api = new Api(`http://127.0.0.1:${port}`, key);
  const alsoStop: Bench['alsoStop'] = [];
  const stop = async () => {
    await endProduct(product);
    await Promise.all(alsoStop.map((end) => end()));
    await mail.stop();
    await receiver.close();
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await whenReady(product, api.base, dir);
    await api.post('/webhooks/endpoints', { url: receiver.url, trigger_events: HEARD });
  } catch (error) {
    await endProduct(product);
    await mail.stop();
    await receiver.close();
    throw error;
  }
  const restart = async (whileStopped: () => Promise<void>) => {
    await endProduct(product);
    await whileStopped();
    const began = performance.now();
    product = spawnProduct(dir, env);
    await whenReady(product, api.base, dir);
    return performance.now() - began;
  };
  const pid = product.pid ?? 0;
  const mailbox = mailboxes((user, options) => connectTo(api, user, options));
  const reports = reportsTo(receiver, (call) =>
    call.event.type === 'email.new' ? emailOf(call).message_id : undefined,
  );
  return { api, receiver, pid, mailPids: mail.pids, mailbox, dir, alsoStop, stop, restart, ...reports };
}

/** Runs the built product; its output goes to `product.log`. */
function spawnProduct(dir: string, env: NodeJS.ProcessEnv): ChildProcess {
  const product = spawn(process.execPath, [ENTRY], {
    cwd: projectRoot(),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log = createWriteStream(join(dir, 'product.log'), { flags: 'a' });
  product.stdout?.pipe(log);
  product.stderr?.pipe(log);
  return product;
}

async function whenReady(product: ChildProcess, base: string, dir: string): Promise<void> {
  await waitFor(
    () => {
      if (product.exitCode !== null) throw new Error(`the product ended at its start, see ${dir}/product.log`);
      return fetch(`${base}/ready`).then(
        (response) => response.ok,
        () => false,
      );
    },
    { timeoutMs: 120_000, what: 'the product to be ready' },
  );
}

/** The database of the product: its port is in the file of the server's process. */
export async function databaseUrl({ dir }: Bench): Promise<string> {
  const [, , , port] = (await readFile(join(dir, 'data', 'postgres', 'postmaster.pid'), 'utf8')).split('\n');
  const password = (await readFile(join(dir, 'data', 'postgres-password'), 'utf8')).trim();
  return `postgresql://mailbox:${password}@127.0.0.1:${port}/mailbox`;
}

/** A connection to the database of the product, which ends with the bench. */
export async function databaseClient(bench: Bench): Promise<pg.Client> {
  const client = new pg.Client(await databaseUrl(bench));
  // the product and its Postgres end first
  client.on('error', () => {});
  await client.connect();
  bench.alsoStop.push(() => client.end().catch(() => {}));
  return client;
}

async function endProduct(product: ChildProcess): Promise<void> {
  if (product.exitCode !== null || product.signalCode !== null) return;
  const gone = once(product, 'exit');
  product.kill('SIGTERM');
  await gone;
}

/** Creates mailboxes and connects them by `connect`. */
export function mailboxes<A extends { id: string }>(
  connect: (user: MailUser, options: ConnectOptions) => Promise<A>,
): Reporter<A>['mailbox'] {
  return async ({ fill, dovecot, domain, connect: options = {} } = {}) => {
    const user = await addUser({ dovecot, domain });
    const imap = await rawImap(user);
    await fill?.(imap, user);
    return { user, account: await connect(user, options), imap };
  };
}

/** The API can be ready a moment before the first worker accepts work. */
const connectTo = (api: Api, user: MailUser, options: ConnectOptions): Promise<Account> =>
  waitFor(
    () =>
      api.connect(user, options).catch((error: unknown) => {
        if (!(error instanceof ApiFailure) || error.status !== 503) throw error;
        return undefined;
      }),
    { timeoutMs: 60_000, everyMs: 200, what: 'a worker to connect the mailbox' },
  );

/** What a receiver was called for; `messageIdOf` gives the Message-ID of a new mail, and nothing of other calls. */
export function reportsTo(
  receiver: Receiver,
  messageIdOf: (call: Call) => string | null | undefined,
): Omit<Reporter, 'mailbox'> {
  const first = new Map<string, number>();
  const all: string[] = [];
  let seen = 0;
  const readCalls = () => {
    for (; seen < receiver.calls.length; seen++) {
      const call = receiver.calls[seen] as Call;
      const id = messageIdOf(call);
      if (id === undefined || id === null) continue;
      all.push(id);
      if (!first.has(id)) first.set(id, call.at);
    }
  };
  const reportedAt = (messageId: string) => {
    readCalls();
    return first.get(messageId);
  };
  return {
    reportedAt,
    reportsOf: (series) => {
      readCalls();
      return all.filter((id) => id.includes(series)).length;
    },
    allReported: async (series, count, timeoutMs) => {
      const missing = () =>
        Array.from({ length: count }, (_, n) => n).filter((n) => !reportedAt(benchMessageId(series, n)));
      await waitFor(() => missing().length === 0, {
        timeoutMs,
        what: () => `${count} mails of ${series}; missing: ${missing().length}`,
      });
    },
  };
}

/** Connects `count` mailboxes and proves with a mail each that they are watched. */
export async function watchedMailboxes<A extends { id: string }>(
  bench: Reporter<A>,
  count: number,
  options: MailboxOptions = {},
): Promise<ConnectedMailbox<A>[]> {
  const boxes: ConnectedMailbox<A>[] = [];
  const series = `warm${randomBytes(4).toString('hex')}`;
  for (let index = 0; index < count; index++) {
    const box = await bench.mailbox(options);
    boxes.push(box);
    await box.imap.append('INBOX', [benchMail(series, index, { to: box.user.user, bytes: 1000 })]);
  }
  await bench.allReported(series, count, 120_000 + 150 * count);
  return boxes;
}
