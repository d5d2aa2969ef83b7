import { type AddressInfo, createServer, type Server } from 'node:net';
import { FakeSession } from './fake-imap-session.ts';
import type { Command } from './fake-imap-wire.ts';

export interface FakeMessage {
  uid: number;
  flags: Set<string>;
  date: Date;
  source: Buffer;
  modseq: number;
  /** X-GM-MSGID or EMAILID */
  emailId?: string;
  /** X-GM-THRID or THREADID */
  threadId?: string;
}

export interface FakeFolder {
  path: string;
  /** LIST attributes, special-use ones among them */
  attributes: string[];
  uidValidity: number;
  uidNext: number;
  modseq: number;
  messages: FakeMessage[];
  vanished: { uid: number; modseq: number }[];
}

export interface FakeImapOptions {
  capabilities?: string;
  folders?: Record<string, string[]>;
}

/** What a test may make the server do instead of what it should. */
export interface Script {
  /** sees each command first; true: it has been dealt with, or is never answered */
  command?: (command: Command, session: FakeSession) => boolean | void;
  /** sees each piece of an answer before it is sent and may give another, several bytes or none */
  answer?: (text: string, command: Command, session: FakeSession) => string | Buffer;
  /** the first line; null: nothing is said at all */
  greeting?: string | null;
}

export const PLAIN = 'IMAP4rev1 NAMESPACE IDLE ENABLE ID SPECIAL-USE LIST-EXTENDED LIST-STATUS UIDPLUS';

/** An IMAP server in memory whose every answer a test can change; one mailbox for whoever logs in. */
export class FakeImap {
  readonly folders = new Map<string, FakeFolder>();
  readonly sessions = new Set<FakeSession>();
  /** every command so far */
  readonly log: Command[] = [];
  capabilities: string;
  script: Script = {};
  private readonly server: Server;

  constructor({ capabilities = PLAIN, folders = {} }: FakeImapOptions = {}) {
    this.capabilities = capabilities;
    for (const [path, attributes] of Object.entries({ INBOX: [], ...folders })) this.createFolder(path, attributes);
    this.server = createServer((socket) => {
      const session = new FakeSession(this, socket);
      this.sessions.add(session);
      socket.on('close', () => this.sessions.delete(session)).on('error', () => {});
    });
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const session of this.sessions) session.socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  createFolder(path: string, attributes: string[] = []): FakeFolder {
    const folder = {
      path,
      attributes,
      uidValidity: 1000 + this.folders.size,
      uidNext: 1,
      modseq: 1,
      messages: [],
      vanished: [],
    };
    this.folders.set(path, folder);
    return folder;
  }

  folder(path: string): FakeFolder {
    const folder = this.folders.get(path);
    if (!folder) throw new Error(`the fake server has no folder ${path}`);
    return folder;
  }

  /** Puts a message into a folder, without telling anyone until `tell`. */
  add(
    path: string,
    source: Buffer,
    more: { flags?: string[]; date?: Date; emailId?: string; threadId?: string } = {},
  ): number {
    const folder = this.folder(path);
    const { flags = [], date = new Date(), ...ids } = more;
    const uid = folder.uidNext++;
    folder.messages.push({ uid, source, date, flags: new Set(flags), modseq: ++folder.modseq, ...ids });
    return uid;
  }

  remove(path: string, uid: number): void {
    const folder = this.folder(path);
    folder.messages = folder.messages.filter((message) => message.uid !== uid);
    folder.vanished.push({ uid, modseq: ++folder.modseq });
  }

  setFlag(path: string, uid: number, flag: string): void {
    const folder = this.folder(path);
    const message = folder.messages.find((each) => each.uid === uid);
    message?.flags.add(flag);
    if (message) message.modseq = ++folder.modseq;
    for (const session of this.sessions) if (session.selected === folder) session.flagNews.add(uid);
  }

  /** Tells the sessions that idle what has changed in the folder they have selected. */
  tell(): void {
    for (const session of this.sessions) if (session.idling) session.tellNews();
  }

  count(name: string): number {
    return this.log.filter((command) => command.name === name).length;
  }
}
