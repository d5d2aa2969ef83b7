import { type FakeFolder, FakeImap, type FakeImapOptions, type FakeMessage, type NewMessage } from './fake-imap.ts';
import { headerFields } from './fake-imap-wire.ts';

const COMMON =
  'IMAP4rev1 NAMESPACE IDLE ENABLE ID SPECIAL-USE LIST-EXTENDED LIST-STATUS UIDPLUS MOVE CONDSTORE UNSELECT';
const ALL = '[Gmail]/All Mail';
const DRAFTS = '[Gmail]/Drafts';
const SENT = '[Gmail]/Sent Mail';
const SPAM = '[Gmail]/Spam';
const STARRED = '[Gmail]/Starred';
const TRASH = '[Gmail]/Trash';

/** Capabilities and folders of a Gmail mailbox, with one label of the user's own. */
export function gmailOptions(): FakeImapOptions {
  return {
    capabilities: `${COMMON} X-GM-EXT-1`,
    folders: {
      Work: [],
      '[Gmail]': ['\\Noselect', '\\HasChildren'],
      [ALL]: ['\\All'],
      [DRAFTS]: ['\\Drafts'],
      '[Gmail]/Important': ['\\Important'],
      [SENT]: ['\\Sent'],
      [SPAM]: ['\\Junk'],
      [STARRED]: ['\\Flagged'],
      [TRASH]: ['\\Trash'],
    },
  };
}

/**
 * A mailbox as Gmail shows it by IMAP: one store of messages, each with one X-GM-MSGID, and labels that look like
 * folders. A message is in All Mail and in each of its labels, or else in Trash or in Spam alone; flags are of the
 * message, `\Deleted` is of the label. https://developers.google.com/workspace/gmail/imap/imap-extensions
 */
export class FakeGmail extends FakeImap {
  private ids = 1_800_000_000_000_000_000n;
  /** Gmail's setting for a message that is expunged from its last label */
  private readonly expunged: 'archive' | 'trash' | 'delete';
  /** X-GM-MSGID of the sent messages */
  private readonly sent = new Set<string | undefined>();

  constructor(options: FakeImapOptions & { expunged?: 'archive' | 'trash' | 'delete' } = {}) {
    super({ ...gmailOptions(), ...options });
    this.expunged = options.expunged ?? 'archive';
  }

  /** Delivers incoming mail. */
  deliver(source: Buffer): void {
    this.append('INBOX', source);
    this.tell();
  }

  /** Files a sent message, as Gmail's SMTP server does automatically. Returns its X-GM-MSGID. */
  deliverSent(source: Buffer): string {
    const uid = this.append(SENT, source, { flags: ['\\Seen'] });
    this.tell();
    const emailId = this.folder(SENT).messages.find((message) => message.uid === uid)?.emailId as string;
    this.sent.add(emailId);
    return emailId;
  }

  /** Paths of the folders that a message is in. */
  labelsOf(emailId: string): string[] {
    return this.entries(emailId)
      .map(([folder]) => folder.path)
      .sort();
  }

  override append(path: string, source: Buffer, more: NewMessage = {}): number {
    const emailId = more.emailId ?? String(++this.ids);
    const flags = path === DRAFTS ? [...(more.flags ?? []), '\\Draft'] : (more.flags ?? []);
    const message = { ...more, flags, emailId, threadId: more.threadId ?? this.threadOf(source) ?? emailId };
    const uid = this.add(path, source, message);
    if (path !== ALL && !isApart(path)) this.add(ALL, source, { date: new Date(), ...message });
    return uid;
  }

  override copy(_from: FakeFolder, message: FakeMessage, to: FakeFolder): number {
    const there = to.messages.find(({ emailId }) => emailId === message.emailId);
    if (there) return there.uid;
    const before = this.entries(message.emailId);
    // Trash and Spam are not labels: a message in one of them has no label, and leaves it for a label.
    const left = before.filter(([folder]) => isApart(to.path) || isApart(folder.path));
    const flags = [...message.flags].filter((flag) => flag !== '\\Deleted');
    const uid = this.put(to, { ...message, flags: new Set(flags) });
    for (const [folder, entry] of left) this.remove(folder.path, entry.uid);
    if (!isApart(to.path) && to.path !== ALL && !this.isIn(ALL, message)) {
      this.put(this.folder(ALL), { ...message, flags: new Set(flags) });
    }
    return uid;
  }

  override move(from: FakeFolder, message: FakeMessage, to: FakeFolder): number {
    const uid = this.copy(from, message, to);
    // a sent message leaves Sent for Trash and Spam only
    const stays = from.path === ALL || from === to || (from.path === SENT && this.sent.has(message.emailId));
    if (!stays && from.messages.includes(message)) this.remove(from.path, message.uid);
    return uid;
  }

  override expunge(folder: FakeFolder, message: FakeMessage): void {
    if (isApart(folder.path)) return this.remove(folder.path, message.uid);
    if (folder.path !== ALL) this.remove(folder.path, message.uid);
    const labels = this.entries(message.emailId).filter(([each]) => each.path !== ALL);
    if (labels.length > 0 || this.expunged === 'archive') {
      if (folder.path === ALL) this.changeFlags(folder, message, [], ['\\Deleted']);
      return;
    }
    if (this.expunged === 'trash') this.copy(folder, message, this.folder(TRASH));
    else for (const [each, entry] of this.entries(message.emailId)) this.remove(each.path, entry.uid);
  }

  override changeFlags(folder: FakeFolder, message: FakeMessage, add: string[], remove: string[]): void {
    super.changeFlags(folder, message, add, remove);
    const shared = (flags: string[]) => flags.filter((flag) => flag !== '\\Deleted');
    for (const [other, entry] of this.entries(message.emailId)) {
      if (other !== folder) super.changeFlags(other, entry, shared(add), shared(remove));
    }
    const starred = this.folders.get(STARRED);
    if (!starred || isApart(folder.path)) return;
    const star = starred.messages.find(({ emailId }) => emailId === message.emailId);
    if (add.includes('\\Flagged') && !star) this.put(starred, { ...message, flags: new Set(message.flags) });
    if (remove.includes('\\Flagged') && star) this.remove(STARRED, star.uid);
  }

  override protects(path: string): string | undefined {
    return path === 'INBOX' || path.startsWith('[Gmail]') ? '[CANNOT] it is a folder of the system' : undefined;
  }

  private entries(emailId: string | undefined): [FakeFolder, FakeMessage][] {
    return [...this.folders.values()].flatMap((folder) =>
      folder.messages
        .filter((message) => message.emailId === emailId)
        .map((message) => [folder, message] as [FakeFolder, FakeMessage]),
    );
  }

  private isIn(path: string, { emailId }: FakeMessage): boolean {
    return this.folder(path).messages.some((each) => each.emailId === emailId);
  }

  /** The thread that a message answers, by its References. */
  private threadOf(source: Buffer): string | undefined {
    const named = idsOf(source, ['references', 'in-reply-to']);
    const all = [...this.folders.values()].flatMap(({ messages }) => messages);
    return all.find((message) => idsOf(message.source, ['message-id']).some((id) => named.includes(id)))?.threadId;
  }
}

function isApart(path: string): boolean {
  return path === TRASH || path === SPAM;
}

function idsOf(source: Buffer, names: string[]): string[] {
  return (
    headerFields(source, names)
      .toString('latin1')
      .match(/<[^<>]+>/g) ?? []
  );
}
