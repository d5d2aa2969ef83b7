import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { DovecotInfo, RunningDovecot } from '../helpers/servers/dovecot.ts';
import { startDovecotProfile } from '../helpers/servers/dovecot-profiles.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { mailText, newMessageId } from '../helpers/product/mail-text.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../helpers/product/watched-account.ts';

/** The engine on a Dovecot: what the owner does in a mail program is an event, once. */

let ground: SyncGround;
beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

interface Watched {
  account: WatchedAccount;
  /** the owner's mail program */
  box: Mailbox;
  /** as WatchedAccount.settle */
  settle(count: number, folders?: string[]): Promise<string[]>;
}
const open: Watched[] = [];

/** A new mailbox with its account, not connected yet. */
async function newMailbox(dovecot?: DovecotInfo): Promise<Watched> {
  const user = await addUser({ dovecot });
  const account = new WatchedAccount(ground, user.imapPort, { pollMs: 200, login: user });
  const box = await openMailbox(user);
  const watched: Watched = { account, box, settle: (count, folders) => account.settle(box, count, folders) };
  open.push(watched);
  return watched;
}

afterEach(async () => {
  for (const { account, box } of open.splice(0)) {
    await account.stop().catch(() => {});
    await box.close();
    expect(account.failure).toBeUndefined();
  }
});

function behaviour(dovecot: () => DovecotInfo | undefined, path: (name: string) => string = (name) => name) {
  it('reports a new email once, with its folder', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    await account.connect();
    await box.append('INBOX', { subject: 'Hello', text: 'World' });
    expect(await settle(1)).toEqual(['email.new']);
    const [event] = await account.events();
    expect(event?.email).toMatchObject({
      subject: 'Hello',
      folders: [await account.folderId('INBOX')],
      is_unread: true,
    });
  });

  it('reports that an email was read, moved and deleted, each once, under one id', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    const filed = path('Filed');
    await box.createFolder(filed);
    await account.connect();
    const uid = await box.append('INBOX', { subject: 'Moves' });
    await settle(1);
    await box.addFlags('INBOX', uid, ['\\Seen']);
    await settle(2);
    await box.move('INBOX', uid, filed);
    expect(await settle(3, ['INBOX', filed])).toEqual(['email.new', 'email.update', 'email.update']);
    const [moved] = await box.uids(filed);
    await box.expunge(filed, moved ?? 0);
    expect(await settle(4, ['INBOX', filed])).toEqual(['email.new', 'email.update', 'email.update', 'email.delete']);
    const events = await account.events();
    expect(new Set(events.map((event) => event.email.id)).size).toBe(1);
    expect(events[2]?.email.folders).toEqual([await account.folderId(filed)]);
  });

  it('finds moves, reads and deletes from the time without a watch', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    const later = path('Later');
    await account.connect();
    const uids: number[] = [];
    for (const subject of ['a', 'b', 'c']) uids.push(await box.append('INBOX', { subject }));
    await settle(3);
    await account.stop();
    await box.createFolder(later);
    await box.move('INBOX', uids[0] ?? 0, later);
    await box.addFlags('INBOX', uids[1] ?? 0, ['\\Seen']);
    await box.expunge('INBOX', uids[2] ?? 0);
    await box.append('INBOX', { subject: 'd' });
    await account.start();
    const types = (await settle(8, ['INBOX', later])).slice(3).sort();
    expect(types).toEqual(['email.delete', 'email.folder.create', 'email.new', 'email.update', 'email.update']);
  });

  it('reports nothing of earlier email that is moved or read later', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    const filed = path('Filed');
    await box.append('INBOX', { subject: 'old' }, { date: new Date(Date.now() - 86_400_000) });
    await box.append('INBOX', { subject: 'recent' });
    await box.createFolder(filed);
    await account.connect();
    await box.addFlags('INBOX', await box.uids('INBOX'), ['\\Seen']);
    await box.move('INBOX', await box.uids('INBOX'), filed);
    await box.append('INBOX', { subject: 'new' });
    expect(await settle(1, ['INBOX', filed])).toEqual(['email.new']);
    expect((await account.events())[0]?.email.subject).toBe('new');
  });

  it('reports a renamed folder once, and none of its email', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    const [before, after] = [path('Before'), path('After')];
    await account.connect();
    await box.createFolder(before);
    await settle(1);
    for (let i = 0; i < 20; i++) await box.append(before, { subject: `mail ${i}` });
    expect((await settle(21)).filter((type) => type === 'email.new')).toHaveLength(20);
    const id = await account.folderId(before);
    expect(id).toMatch(/^fld_/);
    await box.renameFolder(before, after);
    expect((await settle(22, ['INBOX', after])).slice(21)).toEqual(['email.folder.update']);
    expect(await account.folderId(after)).toBe(id);
    await box.deleteFolder(after);
    const rest = (await settle(43)).slice(22);
    expect(rest.filter((type) => type === 'email.folder.delete')).toHaveLength(1);
    expect(rest.filter((type) => type === 'email.delete')).toHaveLength(20);
  });

  it('reports drafts by their own events', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    const drafts = path('Drafts');
    await account.connect();
    if (!(await account.folderId(drafts))) {
      await box.createFolder(drafts);
      await settle(1);
    }
    const before = (await account.events()).length;
    await box.append(drafts, { subject: 'a draft' }, { flags: ['\\Draft', '\\Seen'] });
    const types = (await settle(before + 1)).slice(before);
    expect(types).toEqual(['email.draft.new']);
    const draft = (await account.events()).at(-1)?.email;
    expect(draft).toMatchObject({ object: 'Draft', draft_id: expect.stringMatching(/^drf_/) });
    await box.expunge(drafts, await box.uids(drafts));
    expect((await settle(before + 2)).slice(before)).toEqual(['email.draft.new', 'email.draft.delete']);
    expect((await account.events()).at(-1)?.email.draft_id).toBe(draft?.draft_id);
  });

  it('reports two equal emails in one folder as two', async () => {
    const { account, box, settle } = await newMailbox(dovecot());
    await account.connect();
    const raw = mailText({ subject: 'twin', messageId: newMessageId() });
    const date = new Date();
    await box.append('INBOX', raw, { date });
    await box.append('INBOX', raw, { date });
    expect(await settle(2)).toEqual(['email.new', 'email.new']);
    expect(new Set((await account.events()).map((event) => event.email.id)).size).toBe(2);
  });
}

describe('a watched mailbox', () => behaviour(() => undefined));

describe('a watched mailbox on a server of the year 2000, with all folders below INBOX', () => {
  let server: RunningDovecot;
  beforeAll(async () => {
    server = await startDovecotProfile('oldPrefixed');
  });
  afterAll(() => server.stop());
  behaviour(
    () => server,
    (name) => `INBOX.${name}`,
  );
});
