import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { gmailOptions } from '../helpers/fakes/fake-gmail.ts';
import { FakeImap, type FakeImapOptions } from '../helpers/fakes/fake-imap.ts';
import { mailText, type MailFields } from '../helpers/product/mail-text.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../helpers/product/watched-account.ts';

let ground: SyncGround;
const open: { server: FakeImap; account: WatchedAccount }[] = [];

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
afterEach(async () => {
  for (const { server, account } of open.splice(0)) {
    await account.stop();
    await server.close();
    expect(account.failure).toBeUndefined();
  }
});

const COMMON = 'IMAP4rev1 NAMESPACE IDLE ENABLE ID SPECIAL-USE LIST-EXTENDED LIST-STATUS UIDPLUS MOVE CONDSTORE';
const GMAIL = gmailOptions();
const OBJECT_IDS: FakeImapOptions = {
  capabilities: `${COMMON} OBJECTID`,
  folders: { Work: [], Archive: ['\\Archive'], Drafts: ['\\Drafts'], Sent: ['\\Sent'], Trash: ['\\Trash'] },
};
const ALL = '[Gmail]/All Mail';
const TRASH = '[Gmail]/Trash';
const DRAFTS = '[Gmail]/Drafts';

/** A mail at the provider, in as many folders as it has labels. */
class LabelledMail {
  private readonly uids = new Map<string, number>();
  private readonly server: FakeImap;
  private readonly source: Buffer;
  private readonly ids: { emailId: string; threadId: string; date: Date };
  /** of the one mail, in any folder */
  private readonly flags = new Set<string>();
  private static count = 0;

  constructor(server: FakeImap, fields: MailFields = {}, threadId = `17${++LabelledMail.count}`) {
    this.server = server;
    this.source = mailText({ subject: `mail ${LabelledMail.count}`, ...fields });
    this.ids = { emailId: `18${++LabelledMail.count}`, threadId, date: new Date() };
  }

  /** Adds and takes away folders at one moment. */
  label(add: string[], remove: string[] = []): void {
    const flags = [...this.flags];
    for (const path of add) this.uids.set(path, this.server.add(path, this.source, { ...this.ids, flags }));
    for (const path of remove) this.server.remove(path, this.uids.get(path) as number);
    this.server.tell();
  }

  read(...paths: string[]): void {
    this.flags.add('\\Seen');
    for (const path of paths) this.server.setFlag(path, this.uids.get(path) as number, '\\Seen');
    this.server.tell();
  }
}

async function watched(options: FakeImapOptions, pollMs = 100) {
  const server = await new FakeImap(options).listen();
  const account = new WatchedAccount(ground, server.port, { pollMs });
  open.push({ server, account });
  await account.connect();
  return { server, account };
}

/** Waits for the events, and then for two more passes over all folders, in case of one too many. */
async function expectEvents({ server, account }: { server: FakeImap; account: WatchedAccount }, ...events: string[]) {
  await waitFor(async () => (await account.summary()).length >= events.length, {
    what: () =>
      `${events.length} events, commands: ${server.log
        .slice(-12)
        .map(({ name }) => name)
        .join(', ')}`,
  }).catch(async (error: unknown) => {
    throw new Error(`${String(error)}; came: ${(await account.summary()).join('; ')}`);
  });
  const passes = server.count('LIST');
  await waitFor(() => server.count('LIST') >= passes + 2, { what: 'further passes over the folders' });
  expect(await account.summary()).toEqual(events);
}

describe('a mailbox with labels (X-GM-EXT-1)', () => {
  it('reports each step of a mail once, under one id, and fetches it once', async () => {
    const here = await watched(GMAIL);
    const mail = new LabelledMail(here.server);
    const expected = ['email.new: INBOX'];
    mail.label(['INBOX', ALL]);
    await expectEvents(here, ...expected);
    mail.label(['Work']);
    await expectEvents(here, ...expected, 'email.update: INBOX, Work');
    expected.push('email.update: INBOX, Work');
    mail.read('INBOX', 'Work', ALL);
    await expectEvents(here, ...expected, 'email.update: INBOX, Work');
    expected.push('email.update: INBOX, Work');
    mail.label([], ['Work']);
    await expectEvents(here, ...expected, 'email.update: INBOX');
    expected.push('email.update: INBOX');
    mail.label([], ['INBOX']);
    await expectEvents(here, ...expected, `email.update: ${ALL}`);
    expected.push(`email.update: ${ALL}`);
    mail.label([TRASH], [ALL]);
    await expectEvents(here, ...expected, `email.update: ${TRASH}`);
    expected.push(`email.update: ${TRASH}`);
    mail.label([], [TRASH]);
    await expectEvents(here, ...expected, `email.delete: ${TRASH}`);
    expect(new Set((await here.account.events()).map(({ email }) => email.id)).size).toBe(1);
    const bodies = here.server.log.filter(({ args }) =>
      args.flat(9).some((arg) => String(arg).startsWith('BODY.PEEK[]')),
    );
    expect(bodies).toHaveLength(1);
  });

  it('reports a mail that goes from INBOX and its labels to Trash once', async () => {
    const here = await watched(GMAIL);
    const mail = new LabelledMail(here.server);
    mail.label(['INBOX', 'Work', ALL]);
    await waitFor(async () => (await here.account.summary()).at(-1)?.endsWith('INBOX, Work'), { what: 'both labels' });
    const before = await here.account.summary();
    mail.label([TRASH], ['INBOX', 'Work', ALL]);
    await expectEvents(here, ...before, `email.update: ${TRASH}`);
  });

  it('reports a mail that is archived or deleted right after its arrival', async () => {
    const here = await watched(GMAIL, 60_000);
    const archived = new LabelledMail(here.server);
    archived.label(['INBOX', ALL]);
    await waitFor(async () => (await here.account.summary()).length === 1, { what: 'the new mail' });
    archived.label([], ['INBOX']);
    await waitFor(async () => (await here.account.summary()).length === 2, { what: 'the archived mail' });
    const trashed = new LabelledMail(here.server);
    trashed.label(['INBOX', ALL]);
    await waitFor(async () => (await here.account.summary()).length === 3, { what: 'the second mail' });
    trashed.label([TRASH], ['INBOX', ALL]);
    await waitFor(async () => (await here.account.summary()).length === 4, { what: 'the trashed mail' });
    const [first, second, third, fourth] = await here.account.summary();
    expect([first, second]).toEqual(['email.new: INBOX', `email.update: ${ALL}`]);
    expect([third, fourth]).toEqual(['email.new: INBOX', `email.update: ${TRASH}`]);
  });

  it('reports a mail that comes during the pass over All Mail by its own folder', async () => {
    const here = await watched(GMAIL);
    const mail = new LabelledMail(here.server);
    // It comes after the counters of INBOX were given and before All Mail is opened.
    const other = new LabelledMail(here.server);
    let come = false;
    here.server.script.command = ({ name, args }) => {
      if (come || name !== 'SELECT' || args[0] !== ALL) return;
      come = true;
      mail.label(['INBOX', ALL]);
    };
    other.label([ALL]);
    await expectEvents(here, 'email.new: INBOX', `email.new: ${ALL}`);
  });

  it('reports a draft only by draft events', async () => {
    const here = await watched(GMAIL);
    const draft = new LabelledMail(here.server);
    draft.label([DRAFTS, ALL]);
    await expectEvents(here, `email.draft.new: ${DRAFTS}`);
    draft.label([], [DRAFTS, ALL]);
    await expectEvents(here, `email.draft.new: ${DRAFTS}`, `email.draft.delete: ${DRAFTS}`);
  });

  it('treats a sent draft as sent', async () => {
    const here = await watched(GMAIL);
    const draft = new LabelledMail(here.server);
    draft.label([DRAFTS, ALL]);
    await expectEvents(here, `email.draft.new: ${DRAFTS}`);
    draft.label(['[Gmail]/Sent Mail'], [DRAFTS]);
    const sent = 'email.new: [Gmail]/Sent Mail';
    await expectEvents(here, `email.draft.new: ${DRAFTS}`, 'email.draft.delete: [Gmail]/Sent Mail', sent);
  });

  it('reports nothing of earlier mail, even when it changes', async () => {
    const server = await new FakeImap(GMAIL).listen();
    const account = new WatchedAccount(ground, server.port, { pollMs: 300 });
    open.push({ server, account });
    const old = new LabelledMail(server);
    old.label(['INBOX', ALL]);
    await account.connect();
    old.label(['Work']);
    old.read('INBOX', 'Work', ALL);
    old.label([], ['INBOX']);
    const other = new LabelledMail(server);
    other.label(['INBOX', ALL]);
    old.label([TRASH], ['Work', ALL]);
    await expectEvents({ server, account }, 'email.new: INBOX');
  });
});

describe.each([
  ['X-GM-EXT-1', GMAIL],
  ['OBJECTID', OBJECT_IDS],
])("the server's ids (%s)", (_, options) => {
  it('decide the thread', async () => {
    const here = await watched(options);
    const first = new LabelledMail(here.server, { subject: 'one' }, '1999');
    const second = new LabelledMail(here.server, { subject: 'something else' }, '1999');
    const third = new LabelledMail(here.server, { subject: 'one' }, '2000');
    for (const mail of [first, second, third]) mail.label(['INBOX']);
    await expectEvents(here, 'email.new: INBOX', 'email.new: INBOX', 'email.new: INBOX');
    const [a, b, c] = (await here.account.events()).map(({ email }) => email.thread_id);
    expect(a).toBe(b);
    expect(a).not.toBe(c);
  });

  it('tell two equal mails apart, and one mail in two folders as one', async () => {
    const here = await watched(options);
    const fields = { subject: 'twin', messageId: '<twin@example.test>', date: new Date(0) };
    new LabelledMail(here.server, fields).label(['INBOX']);
    await expectEvents(here, 'email.new: INBOX');
    new LabelledMail(here.server, fields).label(['Work']);
    await expectEvents(here, 'email.new: INBOX', 'email.new: Work');
    const both = new LabelledMail(here.server, fields);
    both.label(['INBOX']);
    await expectEvents(here, 'email.new: INBOX', 'email.new: Work', 'email.new: INBOX');
    both.label(['Work'], ['INBOX']);
    await expectEvents(here, 'email.new: INBOX', 'email.new: Work', 'email.new: INBOX', 'email.update: Work');
    both.label([], ['Work']);
    const events = [
      'email.new: INBOX',
      'email.new: Work',
      'email.new: INBOX',
      'email.update: Work',
      'email.delete: Work',
    ];
    await expectEvents(here, ...events);
  });
});
