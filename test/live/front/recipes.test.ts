import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import type { Account } from '../../../src/contract/account.ts';
import type { EmailSent } from '../../../src/contract/sending.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { type ConnectedUser, connectUser, type Live, joinLive } from '../../helpers/product/live.ts';
import { addUser, doveadm, type MailUser } from '../../helpers/product/mail-user.ts';
import {
  type Block,
  type Language,
  patternOf,
  readBlocks,
  type Session,
  startSession,
} from '../../helpers/assert/recipe.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The lines of docs/recipes do what their page says, pasted one after the other, with curl and with Node. */

const PAGES = [
  'send.md',
  'reply.md',
  'forward.md',
  'draft.md',
  'inbox.md',
  'file.md',
  'track.md',
  'bounce.md',
  'connect-link.md',
  'history.md',
  'webhooks.md',
  'replay.md',
  'not-notified.md',
];
const LANGUAGES: Language[] = ['sh', 'js'];
const NOBODY = 'missing-user@example.test';

let live: Live;
let dir: string;
beforeAll(async () => {
  live = await joinLive();
  dir = await mkdtemp(join(tmpdir(), 'recipes-'));
}, 180_000);
afterAll(async () => {
  await live?.close();
  await rm(dir, { recursive: true, force: true });
}, 60_000);

/** One reader who goes through one page. */
interface Reader {
  owner: ConnectedUser;
  /** whom the owner writes to */
  ada: MailUser;
  /** what each block printed */
  printed: string[];
}

/** The preconditions of the page. */
const BEFORE: Record<string, (reader: Reader) => Promise<unknown>> = {
  'reply.md': ({ owner, ada }) => receive(owner, ada),
  'forward.md': ({ owner, ada }) => receive(owner, ada),
  'inbox.md': ({ owner, ada }) => receive(owner, ada),
  'file.md': ({ owner, ada }) => receive(owner, ada),
  'not-notified.md': async ({ owner, ada }) => {
    await receive(owner, ada);
    await waitFor(async () => (await live.api.get<Account>(`/accounts/${owner.account.id}`)).last_synced_at);
    const delivered = `/webhooks/conversations?account_id=${owner.account.id}&event_type=email.new&status=delivered`;
    await waitFor(async () => (await live.api.get<{ data: unknown[] }>(delivered)).data.length > 0);
    // Temporal's list of runs follows
    const runs = `/accounts/${owner.account.id}/runs?limit=100`;
    await waitFor(async () =>
      (await live.api.get<{ data: { type: string }[] }>(runs)).data.some(({ type }) => type === 'account'),
    );
  },
};

/** Actions of others before the page's first event. */
const BEFORE_EVENT: Record<string, (reader: Reader) => Promise<unknown>> = {
  'track.md': async ({ ada }) => {
    const { html } = await simpleParser(await delivered(ada, 'Spring sale'));
    const [link = '', pixel = ''] = [/href="([^"]*)"/, /src="([^"]*)"/].map((one) => one.exec(String(html))?.[1]);
    expect((await fetch(pixel)).status).toBe(200);
    const answer = await fetch(link, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([302, 'https://shop.example.com/spring?ref=mail']);
  },
};

/** Steps that the page describes in words. */
const AFTER: Record<string, (reader: Reader) => Promise<unknown>> = {
  'bounce.md': async ({ owner, printed }) => {
    const { id } = JSON.parse(printed[0] ?? '') as EmailSent;
    expect(emailOf(await owner.event('email.new.bounce')).bounce?.email_id).toBe(id);
  },
  'send.md': async ({ ada }) => {
    const mail = await simpleParser(await delivered(ada, 'The menu'));
    expect(mail.attachments.map(({ filename, contentType, cid }) => [filename, contentType, cid])).toEqual(
      expect.arrayContaining([
        ['menu.txt', 'text/plain', undefined],
        ['logo.gif', 'image/gif', 'logo'],
      ]),
    );
    const numbers = await simpleParser(await delivered(ada, 'All numbers'));
    expect(numbers.attachments.map(({ filename, contentType, size }) => [filename, contentType, size])).toEqual([
      ['numbers.txt', 'text/plain', 588_895],
    ]);
    expect((await doveadm(ada, 'search', '-u', ada.user, 'subject', 'Order 4711')).trim().split('\n')).toHaveLength(1);
  },
  'reply.md': async ({ ada }) => {
    const mail = await simpleParser(await delivered(ada, 'Re: Lunch?'));
    expect([mail.inReplyTo, mail.references]).toEqual(['<lunch@example.test>', '<lunch@example.test>']);
  },
};

function receive(owner: ConnectedUser, ada: MailUser) {
  const mail = { from: `Ada <${ada.user}>`, to: owner.user.user, subject: 'Lunch?', messageId: '<lunch@example.test>' };
  return owner.box.append('INBOX', mail).then(() => owner.event('email.new'));
}

/** A mail as it came to Ada. */
async function delivered(ada: MailUser, subject: string): Promise<string> {
  const text = await waitFor(async () => doveadm(ada, 'fetch', '-u', ada.user, 'text', 'subject', subject));
  return text?.replace(/^text:\n/, '') ?? '';
}

test.each(PAGES)(
  '%s does what it says, in both languages',
  async (page) => {
    const results = await Promise.allSettled(LANGUAGES.map((language) => readPage(page, language)));
    for (const [index, result] of results.entries()) {
      if (result.status === 'rejected') throw new Error(`in ${LANGUAGES[index]}`, { cause: result.reason });
    }
  },
  90_000,
);

async function readPage(page: string, language: Language): Promise<void> {
  const reader = { owner: await connectUser(live), ada: await addUser(), printed: [] };
  await BEFORE[page]?.(reader);
  const own = (text: string) =>
    text.replaceAll('ada@example.com', reader.ada.user).replaceAll('nobody@example.com', NOBODY);
  const setup = await readBlocks('README.md');
  const blocks = (await readBlocks(page)).map(({ kind, text }) => ({ kind, text: own(text) }));
  const lines = [...setup, ...blocks].filter(({ kind }) => kind === language).map(({ text }) => text);
  const env = { API: `${live.api.base}/api/v1`, KEY: live.api.key, ACCOUNT: reader.owner.account.id };
  const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  lines[0] = (lines[0] ?? '').replace(/^export .*$/m, `export ${assignments.join(' ')}`);
  const session = startSession(language, lines, env, await mkdtemp(join(dir, language)));
  try {
    await follow(reader, session, language, blocks, BEFORE_EVENT[page]);
  } finally {
    session.end();
  }
  await AFTER[page]?.(reader);
}

/** Runs the blocks, and compares what they print and the events with what the page shows. */
async function follow(
  reader: Reader,
  session: Session,
  language: Language,
  blocks: Block[],
  beforeEvent: ((reader: Reader) => Promise<unknown>) | undefined,
): Promise<void> {
  let waiting = beforeEvent;
  for (const { kind, text } of blocks) {
    if (kind === language) reader.printed.push(await session.run());
    if (kind === 'json') expect(reader.printed.at(-1)).toMatch(patternOf(text));
    if (kind === 'text') expect(`${reader.printed.at(-1)}\n`).toBe(text);
    if (kind !== 'event') continue;
    await waiting?.(reader);
    waiting = undefined;
    await expectEvent(reader, text);
  }
}

/** Waits for an event that is as the page shows it. */
async function expectEvent({ owner }: Reader, shown: string): Promise<void> {
  const type = /"type":"([^"]*)"/.exec(shown)?.[1] as Parameters<ConnectedUser['event']>[0];
  const pattern = patternOf(shown);
  await owner.event(type, ({ event }) => pattern.test(JSON.stringify(event)));
}

test('every page is listed and has the same steps in both languages', async () => {
  const folder = join(projectRoot(), 'docs', 'recipes');
  expect((await readdir(folder)).sort()).toEqual([...PAGES, 'README.md'].sort());
  const list = await readFile(join(folder, 'README.md'), 'utf8');
  for (const page of PAGES) {
    expect(list).toContain(`](${page})`);
    const kinds = (await readBlocks(page)).map(({ kind }) => kind);
    const steps = kinds.filter((kind) => kind === 'sh' || kind === 'js');
    expect(steps).toEqual(steps.map((_, index) => LANGUAGES[index % 2]));
  }
});
