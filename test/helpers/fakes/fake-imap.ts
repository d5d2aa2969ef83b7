import { type AddressInfo, createServer, type Server } from 'node:net';
import { FakeSession } from './fake-imap-session.ts';
import type { Command } from './fake-imap-wire.ts';
import { listenOnFreePort } from '../servers/free-port.ts';

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
  /** bytes of the largest message that APPEND takes */
  appendLimit?: number;
  /** closes further connections without a BYE when this many are open */
  hangsUpOver?: number;
  /** sends nothing in IDLE */
  lazyIdle?: boolean;
  /** PERMANENTFLAGS, where they are not all system flags and `\*` */
  permanentFlags?: string;
  /** sets the INTERNALDATE of a copy to the time of copying */
  losesDates?: boolean;
  /** milliseconds during which UIDNEXT counts a new message that cannot be fetched yet */
  announcesMs?: number;
  /** MESSAGELIMIT (RFC 9738) */
  limit?: MessageLimit;
}

/** A command processes at most so many messages. */
export interface MessageLimit {
  most: number;
  /** the response says so, with this code; undefined: nothing does, except a capability */
  says?: boolean;
  /** the code, if it is another one than that of RFC 9738 */
  code?: string;
  /** a command that names more is refused, instead of processed in part */
  refuses?: true;
  /** which messages of a set are processed */
  from: 'lowest' | 'highest';
}

/** The options of an appended or delivered message. */
export interface NewMessage {
  flags?: string[];
  date?: Date;
  emailId?: string;
  threadId?: string;
}

/** Misbehaviour that a test scripts. */
export interface Script {
  /** sees each command first; true: handled, or never to be answered */
  command?: (command: Command, session: FakeSession) => boolean | void;
  /** sees each piece of an answer before it is sent and may replace it */
  answer?: (text: string, command: Command, session: FakeSession) => string | Buffer;
  /** the first line; null: silence */
  greeting?: string | null;
}

export const PLAIN = 'IMAP4rev1 NAMESPACE IDLE ENABLE ID SPECIAL-USE LIST-EXTENDED LIST-STATUS UIDPLUS';

/** An IMAP server in memory whose every answer a test can change; all logins share one mailbox. */
export class FakeImap {
  readonly folders = new Map<string, FakeFolder>();
  readonly sessions = new Set<FakeSession>();
  /** subscribed paths */
  readonly subscribed = new Set<string>();
  /** every command so far */
  readonly log: Command[] = [];
  capabilities: string;
  readonly appendLimit: number;
  script: Script = {};
  readonly options: FakeImapOptions;
  private readonly server: Server;
  private created = 0;

  constructor(options: FakeImapOptions = {}) {
    const { capabilities = PLAIN, folders = {}, appendLimit = Infinity, hangsUpOver = Infinity } = options;
    this.options = options;
    this.capabilities = capabilities;
    this.appendLimit = appendLimit;
    for (const [path, attributes] of Object.entries({ INBOX: [], ...folders })) this.createFolder(path, attributes);
    for (const path of this.folders.keys()) this.subscribed.add(path);
    this.server = createServer((socket) => {
      if (this.sessions.size >= hangsUpOver) return void socket.destroy();
      const session = new FakeSession(this, socket);
      this.sessions.add(session);
      socket.on('close', () => this.sessions.delete(session)).on('error', () => {});
    });
  }

  async listen(): Promise<this> {
    await listenOnFreePort(this.server);
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
      uidValidity: 1000 + this.created++,
      uidNext: 1,
      modseq: 1,
      messages: [],
      vanished: [],
    };
    this.folders.set(path, folder);
    return folder;
  }

  /** Renames a folder with its subfolders. */
  renameFolder(from: string, to: string): void {
    for (const folder of [...this.folders.values()]) {
      if (folder.path !== from && !folder.path.startsWith(`${from}/`)) continue;
      this.folders.delete(folder.path);
      folder.path = to + folder.path.slice(from.length);
      this.folders.set(folder.path, folder);
    }
  }

  deleteFolder(path: string): void {
    this.folders.delete(path);
  }

  /** The reason why a folder may not be renamed or deleted; undefined: it may. */
  protects(_path: string): string | undefined {
    return undefined;
  }

  folder(path: string): FakeFolder {
    const folder = this.folders.get(path);
    if (!folder) throw new Error(`the fake server has no folder ${path}`);
    return folder;
  }

  /** Adds a message to a folder, without notifying clients until `tell`. */
  add(path: string, source: Buffer, more: NewMessage = {}): number {
    const { flags = [], date = new Date(), ...ids } = more;
    return this.put(this.folder(path), { source, date, flags: new Set(flags), ...ids });
  }

  /** Adds a message, by APPEND or delivery; returns its UID. */
  append(path: string, source: Buffer, more: NewMessage = {}): number {
    return this.add(path, source, more);
  }

  /** Delivers a message and notifies clients. */
  arrive(path: string, source: Buffer, more: NewMessage = {}): void {
    const { announcesMs } = this.options;
    if (!announcesMs) return void this.append(path, source, more);
    const { flags = [], date = new Date() } = more;
    const folder = this.folder(path);
    const uid = folder.uidNext++;
    setTimeout(() => {
      folder.messages.push({ source, date, flags: new Set(flags), uid, modseq: ++folder.modseq });
      folder.messages.sort((a, b) => a.uid - b.uid);
      this.tell();
    }, announcesMs);
  }

  /**
   * Renumbers the messages of a folder under the same UIDVALIDITY, with a new message before all others, as Courier did with
   * UIDs assigned under EXAMINE.
   */
  renumber(path: string, source: Buffer): void {
    const folder = this.folder(path);
    folder.uidNext++;
    folder.messages.unshift({ uid: 0, flags: new Set(), date: new Date(), source, modseq: 0 });
    folder.messages.forEach((message, index) => {
      message.uid = folder.uidNext - folder.messages.length + index;
      message.modseq = ++folder.modseq;
    });
  }

  protected put(folder: FakeFolder, message: Omit<FakeMessage, 'uid' | 'modseq'>): number {
    const uid = folder.uidNext++;
    folder.messages.push({ ...message, uid, modseq: ++folder.modseq });
    return uid;
  }

  remove(path: string, uid: number): void {
    const folder = this.folder(path);
    folder.messages = folder.messages.filter((message) => message.uid !== uid);
    folder.vanished.push({ uid, modseq: ++folder.modseq });
  }

  /** COPY of one message; returns its UID in the target. */
  copy(_from: FakeFolder, message: FakeMessage, to: FakeFolder): number {
    const date = this.options.losesDates ? new Date() : message.date;
    return this.put(to, { ...message, date, flags: new Set(message.flags) });
  }

  /** MOVE of one message; returns its UID in the target. */
  move(from: FakeFolder, message: FakeMessage, to: FakeFolder): number {
    const uid = this.copy(from, message, to);
    this.remove(from.path, message.uid);
    return uid;
  }

  /** EXPUNGE of one message. */
  expunge(folder: FakeFolder, message: FakeMessage): void {
    this.remove(folder.path, message.uid);
  }

  setFlag(path: string, uid: number, flag: string): void {
    const folder = this.folder(path);
    const message = folder.messages.find((each) => each.uid === uid);
    if (message) this.changeFlags(folder, message, [flag], []);
  }

  /** Adds and removes flags of one message; the sessions that have its folder open are notified. */
  changeFlags(folder: FakeFolder, message: FakeMessage, add: string[], remove: string[]): void {
    const without = new Set(remove.concat(add).map((flag) => flag.toLowerCase()));
    for (const flag of [...message.flags]) if (without.has(flag.toLowerCase())) message.flags.delete(flag);
    for (const flag of add) message.flags.add(flag);
    message.modseq = ++folder.modseq;
    for (const session of this.sessions) if (session.selected === folder) session.flagNews.add(message.uid);
  }

  /** Notifies idling sessions of changes in their selected folder. */
  tell(): void {
    if (this.options.lazyIdle) return;
    for (const session of this.sessions) if (session.idling) session.tellNews();
  }

  count(name: string): number {
    return this.log.filter((command) => command.name === name).length;
  }
}
