import type { Email } from '../../src/contract/email.ts';
import type { Folder } from '../../src/contract/folder.ts';
import type { Api } from '../helpers/product/api.ts';
import type { Connected } from '../helpers/product/live.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import type { Mailbox } from '../helpers/product/mailbox.ts';
import { comparedFlags, NAMING_FIELDS, type ServerFolder } from './compare.ts';
import { Random } from './random.ts';

const OTHER = {
  append: 22,
  move: 14,
  copy: 7,
  flag: 14,
  expunge: 7,
  createFolder: 4,
  renameFolder: 3,
  deleteFolder: 2,
  recreateFolder: 2,
};
const CALLS = {
  read: 10,
  update: 10,
  modify: 14,
  trash: 5,
  batch: 6,
  createFolder: 3,
  renameFolder: 3,
  deleteFolder: 2,
  createDraft: 4,
  updateDraft: 4,
  deleteDraft: 2,
};

const CALLS_AT_ONCE = 4;
const ROLES = ['Sent', 'Drafts', 'Trash', 'Junk', 'Archive'];

/** Another mail program and a client of the API, both at random, about one mailbox. */
export class LiveActors {
  readonly log: string[] = [];
  readonly faults: string[] = [];
  private readonly api: Api;
  /** the other mail program */
  box: Mailbox;
  private readonly open: () => Promise<Mailbox>;
  private readonly accountId: string;
  private readonly random: Random;
  private readonly running = new Set<Promise<void>>();
  private made = 0;

  /** `open`: a further connection of the other mail program; some servers end one when its folder is deleted. */
  constructor(api: Api, { box, account }: Connected, seed: number, open: () => Promise<Mailbox>) {
    this.api = api;
    this.box = box;
    this.open = open;
    this.accountId = account.id;
    this.random = new Random(seed);
  }

  /** Makes so many operations; `kick` ends all connections of the mailbox, and answers the other program's next one. */
  async act(operations: number, kick?: () => Promise<Mailbox>): Promise<void> {
    for (let count = 0; count < operations; count++) {
      const kind = this.random.weighted({ other: 60, api: 38, kick: kick ? 2 : 0 });
      if (kind === 'other') await this.other();
      else if (kind === 'api') await this.call();
      else await this.kicked(kick);
    }
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** What the server has, read on a connection of the other mail program. */
  async readMailbox(): Promise<ServerFolder[]> {
    await this.openAgain();
    return readMailbox(this.box);
  }

  private async openAgain(): Promise<void> {
    if (this.box.client.usable) return;
    this.log.push('other opens again');
    this.box = await this.open();
  }

  private async kicked(kick: (() => Promise<Mailbox>) | undefined): Promise<void> {
    this.log.push('kick');
    this.box = (await kick?.()) ?? this.box;
  }

  private async other(): Promise<void> {
    const operation = this.random.weighted(OTHER);
    try {
      await this.openAgain();
      const { done, path } = await this.change(operation);
      this.log.push(`other ${operation} ${path} ${done ?? '-'}`);
    } catch (error) {
      // The API has deleted the folder or the message, or is at it: the server refuses.
      this.log.push(`other ${operation}: ${String(error)}`);
    }
  }

  private async change(operation: keyof typeof OTHER): Promise<{ path: string; done?: string | undefined }> {
    const { box, random } = this;
    const paths = (await box.client.list()).filter(({ flags }) => !flags.has('\\Noselect')).map(({ path }) => path);
    const path = random.chance(0.3) ? 'INBOX' : (random.pick(paths) ?? 'INBOX');
    const own = random.pick(paths.filter((each) => each !== 'INBOX' && !ROLES.some((role) => each.endsWith(role))));
    const to = random.pick(paths.filter((each) => each !== path)) ?? 'INBOX';
    const name = `f${random.below(10)}`;
    const uid = /^(move|copy|flag|expunge)$/.test(operation) ? random.pick(await box.uids(path)) : undefined;
    switch (operation) {
      case 'append':
        return { path, done: await this.append(path) };
      case 'createFolder':
        if (paths.length < 12 && !paths.includes(name)) await box.createFolder(name);
        return { path: name };
      case 'renameFolder':
        if (own !== undefined && !paths.includes(name)) await box.renameFolder(own, name);
        return { path: `${own} ${name}` };
      case 'deleteFolder':
        if (own !== undefined) await box.deleteFolder(own);
        return { path: `${own}` };
      case 'recreateFolder':
        if (own === undefined) return { path: '-' };
        await box.deleteFolder(own);
        await box.createFolder(own);
        return { path: own, done: await this.append(own) };
      default:
        if (uid !== undefined) await this.changeMessage(operation, { path, uid, to });
        return { path, done: `${uid} ${to}` };
    }
  }

  private async append(path: string): Promise<string> {
    const subject = `m${++this.made}`;
    const date = new Date(Date.UTC(2024, 4, 6, 7, 8, this.made % 7));
    const flags = this.random.chance(0.3) ? ['\\Seen'] : [];
    await this.box.append(path, mailText({ subject, messageId: `<${subject}@chaos.test>`, date }), { flags, date });
    return subject;
  }

  private async changeMessage(
    operation: 'move' | 'copy' | 'flag' | 'expunge',
    { path, uid, to }: { path: string; uid: number; to: string },
  ): Promise<void> {
    const { box } = this;
    if (operation === 'move') await box.move(path, uid, to);
    else if (operation === 'expunge') await box.expunge(path, uid);
    else if (operation === 'flag') {
      const flag = this.random.pick(['\\Seen', '\\Flagged', '\\Answered', '$Forwarded', 'work', 'Home']) as string;
      if (this.random.chance(0.5)) await box.addFlags(path, uid, [flag]);
      else await box.removeFlags(path, uid, [flag]);
    } else {
      const lock = await box.client.getMailboxLock(path);
      await box.client.messageCopy(String(uid), to, { uid: true }).finally(() => lock.release());
    }
  }

  private async call(): Promise<void> {
    while (this.running.size >= CALLS_AT_ONCE) await Promise.race(this.running);
    const operation = this.random.weighted(CALLS);
    const request = await this.request(operation);
    if (!request) return;
    const [method, path, body] = request;
    const ended = this.api
      .request(method, `/${this.accountId}${path}`, body)
      .then(async (response) => {
        this.log.push(`api ${method} ${path} ${JSON.stringify(body)}: ${response.status}`);
        const text = await response.text();
        if (response.status === 500) this.faults.push(`${method} ${path} answered 500: ${text}`);
      })
      .finally(() => this.running.delete(ended));
    this.running.add(ended);
  }

  private async request(operation: keyof typeof CALLS): Promise<[string, string, unknown?] | undefined> {
    const { random } = this;
    const folders = await this.api.folders(this.accountId);
    const own = random.pick(folders.filter(({ role }) => role === 'UNKNOWN'));
    const name = `f${random.below(10)}`;
    const isOfEmail = operation === 'read' || operation === 'update' || operation === 'modify' || operation === 'trash';
    const isOfDraft = operation === 'updateDraft' || operation === 'deleteDraft';
    const id = isOfEmail ? await this.anyOf('emails') : isOfDraft ? await this.anyOf('drafts') : undefined;
    if ((isOfEmail || isOfDraft) && id === undefined) return undefined;
    switch (operation) {
      case 'read':
        return ['POST', `/emails/${id}/${random.chance(0.5) ? 'read' : 'unread'}`];
      case 'update': {
        const words = ['work', 'HOME', 'later'].filter(() => random.chance(0.4));
        const keywords = random.chance(0.5) ? { add: words } : { remove: words };
        const folders_ids = random.chance(0.2) ? { folders_ids: [random.pick<Folder>(folders)?.id] } : {};
        return ['PATCH', `/emails/${id}`, { is_starred: random.chance(0.5), keywords, ...folders_ids }];
      }
      case 'modify':
        return ['POST', `/emails/${id}/modify`, { folders_ids: [random.pick<Folder>(folders)?.id] }];
      case 'trash':
        return ['DELETE', `/emails/${id}`];
      case 'batch': {
        const ids = (await this.list('emails')).map((email) => email.id).filter(() => random.chance(0.3));
        const folder = random.pick<Folder>(folders)?.id;
        const change = random.pick<object>([
          { is_starred: random.chance(0.5), keywords: { add: ['batch'] } },
          { is_unread: random.chance(0.5), keywords: { remove: ['batch'] } },
          { is_unread: false, folders_ids: [folder] },
          { trash: true },
        ]);
        return ids.length === 0 ? undefined : ['POST', '/emails/batch', { ids, change }];
      }
      case 'createFolder':
        return folders.length > 14 ? undefined : ['POST', '/folders', { name }];
      case 'renameFolder':
        return own && ['PATCH', `/folders/${own.id}`, { name }];
      case 'deleteFolder':
        return own && ['DELETE', `/folders/${own.id}`];
      case 'createDraft':
        return ['POST', '/drafts', { subject: `d${++this.made}` }];
      case 'updateDraft':
        return ['PATCH', `/drafts/${id}`, { subject: `d${++this.made}` }];
      case 'deleteDraft':
        return ['DELETE', `/drafts/${id}`];
    }
  }

  private async anyOf(list: 'emails' | 'drafts'): Promise<string | undefined> {
    return this.random.pick(await this.list(list))?.id;
  }

  private async list(list: 'emails' | 'drafts'): Promise<Email[]> {
    return (await this.api.get<{ data: Email[] }>(`/${this.accountId}/${list}?limit=50`)).data;
  }
}

async function readMailbox({ client }: Mailbox): Promise<ServerFolder[]> {
  const folders: ServerFolder[] = [];
  for (const { path, flags } of await client.list()) {
    if (flags.has('\\Noselect') || flags.has('\\NonExistent')) continue;
    // deleted or renamed since it was listed
    const lock = await client.getMailboxLock(path).catch(() => undefined);
    if (!lock) continue;
    try {
      const query = { uid: true, flags: true, headers: NAMING_FIELDS, size: true, internalDate: true };
      const exists = client.mailbox ? client.mailbox.exists : 0;
      const found = exists > 0 ? await client.fetchAll('1:*', query) : [];
      const messages = found.map(({ uid, flags: set = new Set<string>(), headers, size = 0, internalDate }) => ({
        ...{ uid, size, ...comparedFlags(set) },
        ...{ header: headers?.toString('latin1') ?? '', date: new Date(internalDate ?? 0) },
      }));
      folders.push({ path, messages });
    } finally {
      lock.release();
    }
  }
  return folders;
}
