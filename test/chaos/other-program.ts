import type { FakeImap, FakeFolder } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import type { Random } from './random.ts';

const WEIGHTS = {
  arrive: 22,
  duplicate: 4,
  move: 16,
  copy: 7,
  seen: 12,
  star: 6,
  keyword: 8,
  mark: 5,
  expunge: 8,
  createFolder: 4,
  renameFolder: 3,
  deleteFolder: 2,
  recreateFolder: 2,
  renumber: 0,
};
export type OtherOperation = keyof typeof WEIGHTS;

export interface OtherProgramOptions {
  /** how often an operation comes, where not as usual */
  weights?: Partial<Record<OtherOperation, number>>;
}

export type OutsideChange = 'expunge' | 'move' | 'copy' | 'flag';

/** Names of the folders of the mailbox before the chaos that stay under their names. */
const KEPT = /^(INBOX|Trash|Drafts|Sent|\[Gmail\].*)$/;

/** The mail programs of the mailbox's owner, which change it at the server at random. */
export class OtherProgram {
  private readonly server: FakeImap;
  private readonly random: Random;
  private readonly weights: typeof WEIGHTS;
  private made = 0;

  constructor(server: FakeImap, random: Random, { weights = {} }: OtherProgramOptions = {}) {
    this.server = server;
    this.random = random;
    this.weights = { ...WEIGHTS, ...weights };
  }

  /** Changes something, or nothing where what was chosen cannot be done; says what. */
  act(): string {
    const operation = this.random.weighted(this.weights);
    const done = this[operation]();
    this.server.tell();
    return `${operation} ${done ?? '-'}`;
  }

  /** Expunges, moves, copies or flags what came into a folder last. */
  actOnNewest(how: OutsideChange, path: string): void {
    const folder = this.server.folders.get(path);
    const newest = folder?.messages.at(-1);
    if (!folder || !newest) return;
    const to = this.random.pick(this.folders().filter((each) => each !== folder)) as FakeFolder;
    if (how === 'expunge') this.server.expunge(folder, newest);
    else if (how === 'flag') this.server.changeFlags(folder, newest, ['\\Seen'], []);
    else this.server[how](folder, newest, to);
    this.server.tell();
  }

  /** Takes out of a folder what came there last: what the API has just put there, when it is called right after that. */
  expungeNewest(path: string): void {
    const folder = this.server.folders.get(path);
    const newest = folder?.messages.at(-1);
    if (folder && newest) this.server.expunge(folder, newest);
  }

  /** Puts mail into a folder. */
  arrive(path = this.folder()?.path): string | undefined {
    if (path === undefined) return undefined;
    const subject = `m${++this.made}`;
    // the same date more than once, and in the past, so that a copy with the date of today differs
    const date = new Date(Date.UTC(2024, 4, 6, 7, 8, this.made % 7));
    const messageId = `<${subject}@chaos.test>`;
    const flags = this.random.chance(0.3) ? ['\\Seen', ...(this.random.chance(0.5) ? ['work'] : [])] : [];
    const whole = mailText({ subject, messageId, date, text: 'x'.repeat(this.random.below(40)) });
    // some mail has no Message-ID
    const source = this.random.chance(0.1) ? Buffer.from(whole.toString().replace(/^Message-ID:.*\r\n/m, '')) : whole;
    this.server.arrive(path, source, { date, flags });
    return `${subject} ${path}`;
  }

  private duplicate(): string | undefined {
    const found = this.message();
    const to = this.folder();
    if (!found || !to) return undefined;
    const { source, date } = found.message;
    this.server.arrive(to.path, source, { date: this.random.chance(0.5) ? date : new Date(date.getTime() + 5_000) });
    return `${found.folder.path} ${found.message.uid} ${to.path}`;
  }

  private move(): string | undefined {
    return this.transfer('move');
  }

  private copy(): string | undefined {
    return this.transfer('copy');
  }

  private transfer(verb: 'move' | 'copy'): string | undefined {
    const found = this.message();
    const to = this.folder();
    if (!found || !to || to === found.folder) return undefined;
    this.server[verb](found.folder, found.message, to);
    return `${found.folder.path} ${found.message.uid} ${to.path}`;
  }

  private seen(): string | undefined {
    return this.flag('\\Seen');
  }

  private star(): string | undefined {
    return this.flag('\\Flagged');
  }

  private keyword(): string | undefined {
    return this.flag(this.random.pick(['\\Answered', '$Forwarded', 'work', 'home']) as string);
  }

  private mark(): string | undefined {
    return this.flag('\\Deleted');
  }

  private flag(flag: string): string | undefined {
    const found = this.message();
    if (!found) return undefined;
    const { folder, message } = found;
    const set = message.flags.has(flag);
    this.server.changeFlags(folder, message, set ? [] : [flag], set ? [flag] : []);
    return `${folder.path} ${message.uid} ${set ? '-' : '+'}${flag}`;
  }

  private expunge(): string | undefined {
    const found = this.message();
    if (!found) return undefined;
    const { folder, message } = found;
    this.server.changeFlags(folder, message, ['\\Deleted'], []);
    this.server.expunge(folder, message);
    return `${folder.path} ${message.uid}`;
  }

  private createFolder(): string | undefined {
    if (this.free().length > 7) return undefined;
    const parent = this.random.chance(0.3) ? this.random.pick(this.free()) : undefined;
    const name = `f${this.random.below(12)}`;
    const path = parent ? `${parent.path}/${name}` : name;
    if (this.server.folders.has(path)) return undefined;
    this.server.createFolder(path);
    return path;
  }

  private renameFolder(): string | undefined {
    const from = this.random.pick(this.free())?.path;
    const to = `f${this.random.below(12)}`;
    if (from === undefined || this.server.folders.has(to) || to.startsWith(`${from}/`)) return undefined;
    this.server.renameFolder(from, to);
    return `${from} ${to}`;
  }

  private deleteFolder(): string | undefined {
    const folder = this.random.pick(this.free());
    if (folder) this.drop(folder);
    return folder?.path;
  }

  private recreateFolder(): string | undefined {
    const folder = this.random.pick(this.free());
    if (!folder) return undefined;
    this.drop(folder);
    this.server.createFolder(folder.path);
    for (let count = this.random.below(3); count > 0; count--) this.arrive(folder.path);
    return folder.path;
  }

  private renumber(): string | undefined {
    // A server renumbers a folder that no session has selected.
    const open = new Set([...this.server.sessions].map(({ selected }) => selected));
    const folder = this.random.pick(this.folders().filter((each) => !open.has(each)));
    if (!folder) return undefined;
    const subject = `m${++this.made}`;
    this.server.renumber(folder.path, mailText({ subject, messageId: `<${subject}@chaos.test>` }));
    return folder.path;
  }

  private drop(folder: FakeFolder): void {
    this.server.deleteFolder(folder.path);
    for (const session of this.server.sessions) if (session.selected === folder) session.selected = undefined;
  }

  /** Folders that mail can be in. */
  private folders(): FakeFolder[] {
    const isOpen = ({ path, attributes }: FakeFolder) =>
      !attributes.includes('\\Noselect') && !/All Mail|Starred|Important/.test(path);
    return [...this.server.folders.values()].filter(isOpen);
  }

  private free(): FakeFolder[] {
    return this.folders().filter(({ path }) => !KEPT.test(path));
  }

  private folder(): FakeFolder | undefined {
    return this.random.chance(0.3) ? this.server.folder('INBOX') : this.random.pick(this.folders());
  }

  private message() {
    const all = this.folders().flatMap((folder) => folder.messages.map((message) => ({ folder, message })));
    return this.random.pick(all);
  }
}
