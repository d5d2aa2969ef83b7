import pg from 'pg';
import type { Account } from '../../../src/contract/account.ts';
import type { EventType } from '../../../src/contract/events.ts';
import type { Api, ConnectOptions } from './api.ts';
import { addUser, type MailLogin, type MailUser, type NewUser } from './mail-user.ts';
import { type Mailbox, openMailbox } from './mailbox.ts';
import { newMessageId } from './mail-text.ts';
import { type Product, startProduct } from './product.ts';
import { type Call, type Calls, emailOf, folderOf, type Receiver, startReceiver } from '../fakes/receiver.ts';
import { joinProduct } from './shared-product.ts';
import { waitFor, type WaitOptions } from '../assert/wait.ts';

/** A running product that sends every event to a receiver. */
export interface Live {
  api: Api;
  receiver: Calls;
  /** of the product's database */
  pool: pg.Pool;
  /** open mail programs beside it */
  boxes: Set<Mailbox>;
  close(): Promise<void>;
}

/** A running product that no other test file uses: it may be killed, and its receiver may refuse calls. */
export interface OwnLive extends Live {
  product: Product;
  receiver: Receiver;
}

/**
 * Joins the product that test files with these settings share. Its other accounts and start time are unknown; the accounts
 * connected here are removed at the end.
 */
export async function joinLive(settings: Record<string, string> = {}): Promise<Live> {
  const { api, calls, databaseUrl, leave } = await joinProduct(settings);
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  const boxes = new Set<Mailbox>();
  return {
    api,
    receiver: calls,
    pool,
    boxes,
    close: async () => {
      for (const { client } of boxes) client.close();
      await Promise.all([...api.connected].map((id) => removeAccount(api, id)));
      leave();
      await pool.end();
    },
  };
}

/** Removes an account, unless the test has removed it. */
async function removeAccount(api: Api, id: string): Promise<void> {
  const { status } = await api.request('DELETE', `/accounts/${id}`);
  if (status !== 200 && status !== 404) throw new Error(`an account of the test could not be removed: ${status}`);
}

/** Starts a separate product, with an endpoint for every event of every account. */
export async function startLive(settings: Record<string, string> = {}): Promise<OwnLive> {
  const product = await startProduct(settings);
  const receiver = await startReceiver();
  await product.api.listen(receiver);
  const boxes = new Set<Mailbox>();
  return {
    product,
    api: product.api,
    receiver,
    pool: product.database.database.pool,
    boxes,
    close: async () => {
      for (const { client } of boxes) client.close();
      await product.stop();
      await receiver.close();
    },
  };
}

/** A mailbox connected to the product, with the user's own mail program beside it. */
export interface Connected {
  box: Mailbox;
  account: Account;
  /** events of this account so far, in the order in which they happened */
  events(...types: EventType[]): Call[];
  /** Waits for an event of this account. */
  event(type: EventType, fits?: (call: Call) => boolean, options?: WaitOptions): Promise<Call>;
  /** Appends an email and waits for its event. */
  receive(folder: string, subject: string): Promise<{ uid: number; call: Call }>;
  /**
   * Puts a marker email into a folder and waits for its event and all events numbered before it. Returns the events
   * since the last settling, without markers and account events: this also proves that no further event exists.
   */
  settle(folder?: string, options?: WaitOptions): Promise<Call[]>;
}

/** A mailbox on a Dovecot of the tests, connected. */
export interface ConnectedUser extends Connected {
  user: MailUser;
}

/** Connects an existing mailbox on any server. */
export async function connectLogin(live: Live, login: MailLogin, setup: Setup = {}): Promise<Connected> {
  const { before, ...options } = setup;
  const box = await openMailbox(login);
  live.boxes.add(box);
  await before?.(box);
  const account = await live.api.connect(login, options);
  return connected(live, login.user, box, account);
}

interface Setup extends ConnectOptions {
  /** fills the mailbox before it is connected */
  before?: (box: Mailbox) => Promise<void>;
}

/** Makes a mailbox and connects it. */
export async function connectUser(live: Live, setup: NewUser & Setup = {}): Promise<ConnectedUser> {
  const { user: name, password, dovecot, ...options } = setup;
  const user = await addUser({ user: name, password, dovecot });
  return Object.assign(await connectLogin(live, user, options), { user });
}

function connected({ receiver }: Live, address: string, box: Mailbox, account: Account): Connected {
  const marks = new Set<string>();
  let settledTo = 0;
  const sequenceOf = (call: Call) => call.event.sequence;
  const isMark = (call: Call) => call.event.type.startsWith('email.') && marks.has(emailOf(call)?.message_id ?? '');
  const self: Connected = {
    box,
    account,
    events: (...types) =>
      receiver
        .accepted({ account: account.id, ...(types.length > 0 ? { types } : {}) })
        .sort((a, b) => sequenceOf(a) - sequenceOf(b)),
    event: (type, fits = () => true, options = {}) =>
      receiver.waitFor((call) => call.event.account_id === account.id && call.event.type === type && fits(call), {
        what: () => `${type}; came: ${typesOf(self.events()).join(', ') || 'nothing'}`,
        ...options,
      }),
    receive: async (folder, subject) => {
      const messageId = newMessageId();
      const uid = await self.box.append(folder, { subject, messageId, to: address });
      const call = await self.event('email.new', (one) => emailOf(one).message_id === messageId);
      return { uid, call };
    },
    settle: async (folder = 'INBOX', options = {}) => {
      const messageId = newMessageId();
      marks.add(messageId);
      await self.box.append(folder, { subject: 'a mark', messageId, to: address });
      const mark = await self.event('email.new', (one) => emailOf(one).message_id === messageId, options);
      const last = sequenceOf(mark);
      await waitFor(() => new Set(self.events().map(sequenceOf)).size >= last, {
        ...options,
        what: `events 1 to ${last}; came: ${self.events().map(sequenceOf).join(', ')}`,
      });
      const since = self.events().filter((call) => sequenceOf(call) > settledTo && sequenceOf(call) <= last);
      settledTo = last;
      return since.filter((call) => !isMark(call) && !call.event.type.startsWith('account.'));
    },
  };
  return self;
}

export function typesOf(calls: Call[]): EventType[] {
  return calls.map(({ event }) => event.type);
}

/** Events in short, sorted: `email.new the subject`, `email.folder.create the name`. */
export function brief(calls: Call[]): string[] {
  return calls
    .map((call) => `${call.event.type} ${(emailOf(call) ?? { subject: folderOf(call)?.name }).subject}`)
    .sort();
}
