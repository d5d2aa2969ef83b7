import { ImapFlow } from 'imapflow';
import nodemailer from 'nodemailer';
import { mailText, type MailFields } from './mail-text.ts';
import type { MailLogin } from './mail-user.ts';
import { mailServers } from '../servers/mail-servers.ts';

/** The user's own mail program: changes at the provider, outside of the product. */
export interface Mailbox {
  readonly client: ImapFlow;
  /** Appends a message to a folder and returns its UID. */
  append(folder: string, mail: MailFields | Buffer, options?: { flags?: string[]; date?: Date }): Promise<number>;
  uids(folder: string): Promise<number[]>;
  move(folder: string, uids: number | number[], target: string): Promise<void>;
  addFlags(folder: string, uids: number | number[], flags: string[]): Promise<void>;
  removeFlags(folder: string, uids: number | number[], flags: string[]): Promise<void>;
  /** Deletes permanently. */
  expunge(folder: string, uids: number | number[]): Promise<void>;
  createFolder(path: string): Promise<void>;
  renameFolder(from: string, to: string): Promise<void>;
  deleteFolder(path: string): Promise<void>;
  close(): Promise<void>;
}

/** Logs in as the user, on a separate connection. */
export async function openMailbox(user: MailLogin): Promise<Mailbox> {
  const client = new ImapFlow({
    host: '127.0.0.1',
    port: user.imapPort,
    secure: false,
    doSTARTTLS: false,
    auth: { user: user.user, pass: user.password },
    logger: false,
  });
  // A session that the test closes at the server (kick) must not fail the test.
  client.on('error', () => {});
  await client.connect().catch((error: unknown) => {
    client.close();
    throw error;
  });

  const within = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
    const lock = await client.getMailboxLock(folder);
    try {
      return await work();
    } finally {
      lock.release();
    }
  };
  const done = (what: string, answer: unknown): void => {
    if (!answer) throw new Error(`the mail server refused: ${what}`);
  };
  const byUid = { uid: true };
  const range = (uids: number | number[]) => [uids].flat().join(',');

  const uids = (folder: string) => within(folder, async () => (await client.search({ all: true }, byUid)) || []);

  return {
    client,
    uids,
    async append(folder, mail, options = {}) {
      const raw = Buffer.isBuffer(mail) ? mail : mailText(mail);
      const answer = await client.append(folder, raw, options.flags ?? [], options.date);
      done(`append to ${folder}`, answer);
      // a server without UIDPLUS does not say
      return (answer && answer.uid) || ((await uids(folder)).at(-1) ?? 0);
    },
    move: (folder, uids, target) =>
      within(folder, async () => done('move', await client.messageMove(range(uids), target, byUid))),
    addFlags: (folder, uids, flags) =>
      within(folder, async () => done('flags', await client.messageFlagsAdd(range(uids), flags, byUid))),
    removeFlags: (folder, uids, flags) =>
      within(folder, async () => done('flags', await client.messageFlagsRemove(range(uids), flags, byUid))),
    expunge: (folder, uids) =>
      within(folder, async () => done('delete', await client.messageDelete(range(uids), byUid))),
    createFolder: async (path) => done('create', await client.mailboxCreate(path)),
    renameFolder: async (from, to) => done('rename', await client.mailboxRename(from, to)),
    deleteFolder: async (path) => done('delete', await client.mailboxDelete(path)),
    close: async () => {
      await client.logout().catch(() => client.close());
    },
  };
}

/** Delivers a message from outside through Postfix, as another server would. */
export async function deliver(
  to: string | string[],
  mail: MailFields | Buffer,
  from = 'ada@elsewhere.test',
): Promise<void> {
  const raw = Buffer.isBuffer(mail) ? mail : mailText({ to: [to].flat().join(', '), ...mail });
  await send(mailServers().postfix.smtpPort, undefined, from, to, raw);
}

/** Sends a message as the user's own mail program does: logged in, by submission. */
export async function submit(user: MailLogin, to: string | string[], mail: MailFields): Promise<void> {
  const raw = mailText({ from: user.user, to: [to].flat().join(', '), ...mail });
  await send(user.submissionPort, user, user.user, to, raw);
}

async function send(port: number, login: MailLogin | undefined, from: string, to: string | string[], raw: Buffer) {
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port,
    ignoreTLS: true,
    ...(login ? { auth: { user: login.user, pass: login.password } } : {}),
  });
  try {
    await transport.sendMail({ envelope: { from, to }, raw });
  } finally {
    transport.close();
  }
}
