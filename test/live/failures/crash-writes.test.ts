import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult } from '../../../src/contract/sending.ts';
import type { Folder } from '../../../src/contract/folder.ts';
import {
  type Connected,
  connectLogin,
  connectUser,
  type ConnectedUser,
  type OwnLive,
  startLive,
} from '../../helpers/product/live.ts';
import type { DovecotInfo, RunningDovecot } from '../../helpers/servers/dovecot.ts';
import { addUserWhoSends, startDovecotProfile } from '../../helpers/servers/dovecot-profiles.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Piece, startTappedProxy, type TappedProxy } from '../../helpers/fakes/tapped-proxy.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/*
 * kill -9 of the worker at the numbered steps of a send, a draft update and a move: just as a piece of the conversation
 * with the mail server passes, which then never arrives. Each step has a separate account, and its piece is held back
 * until all accounts have come to their steps: one kill meets them all. `npm run test:crash` goes through all of the
 * steps, `npm test` through those at which most could go wrong.
 */

interface Step {
  name: string;
  at: (piece: Piece) => boolean;
  /** over which connections; default IMAP */
  smtp?: true;
  /** part of the short form */
  short?: boolean;
}

const client = (pattern: RegExp) => (piece: Piece) => piece.from === 'client' && pattern.test(piece.text);
const server = (pattern: RegExp) => (piece: Piece) => piece.from === 'server' && pattern.test(piece.text);
/** The answer to a command, or a later piece on that connection: the next piece that matches. */
const after = (first: Step['at'], second: Step['at']): Step['at'] => {
  let passed = false;
  return (piece) => {
    if (passed) return second(piece);
    passed = first(piece);
    return false;
  };
};

interface Prepared {
  call: () => Promise<Response>;
  /** of the draft or the email that exists before the call */
  id?: string;
}

/** The operation in progress in one account when the worker is killed. */
interface Scene extends Step, Prepared {
  title: string;
  write: Write;
  account: Connected;
  subject: string;
  /** set when the call may reach its step, unset when it has */
  armed: boolean;
  /** what the caller gets, once it has called */
  answer?: Promise<Response>;
}

/** A call that is killed, with what must hold once another worker has taken over. */
interface Write {
  /** on a server that has neither MOVE nor UIDPLUS */
  stripped?: boolean;
  /** makes what is written to */
  prepare(of: Connected, subject: string): Promise<Prepared>;
  check(scene: Required<Scene>): Promise<void>;
}

const CALM = { timeoutMs: 90_000 };
let live: OwnLive;
let bea: ConnectedUser;
let stripped: RunningDovecot;
const proxies: TappedProxy[] = [];

const subjectsIn = async (of: Connected, folder: string, subject: string) => {
  const role = (await live.api.folders(of.account.id)).find((one) => one.role === folder || one.name === folder);
  const query = { subject, limit: '50' };
  return (
    await live.api.get<{ data: Email[] }>(`/${of.account.id}/folders/${role?.id}/emails?${new URLSearchParams(query)}`)
  ).data;
};

const prepareSend: Write['prepare'] = async (of, subject) => {
  const to = [{ email: bea.user.user }];
  return { call: () => live.api.request('POST', `/${of.account.id}/emails/send`, { to, subject, plain_text: 'once' }) };
};

async function expectOk(answer: Response): Promise<void> {
  expect([answer.status, await answer.clone().json()]).toEqual([200, expect.anything()]);
}

const sendMadeOnce: Write = {
  prepare: prepareSend,
  async check({ account: of, subject, answer }) {
    await expectOk(await answer);
    const { id } = (await (await answer).json()) as { id: string };
    await bea.event('email.new', (call) => emailOf(call).subject === subject, { timeoutMs: 60_000 });
    await of.event('email.new', (call) => emailOf(call).id === id, { timeoutMs: 60_000 });
    await Promise.all([of.settle('INBOX', CALM), bea.settle('INBOX', CALM)]);
    expect((await subjectsIn(bea, 'INBOX', subject)).length).toBe(1);
    expect((await subjectsIn(of, 'SENT', subject)).map((email) => email.id)).toEqual([id]);
    expect(of.events('email.new').filter((call) => emailOf(call).subject === subject)).toHaveLength(1);
  },
};

const sendUnknown: Write = {
  prepare: prepareSend,
  async check({ account: of, subject, answer }) {
    expect((await answer).status).toBe(502);
    expect(((await (await answer).json()) as { detail: string }).detail).toContain('may have been sent');
    await Promise.all([of.settle('INBOX', CALM), bea.settle('INBOX', CALM)]);
    expect((await subjectsIn(bea, 'INBOX', subject)).length).toBeLessThanOrEqual(1);
    expect(await subjectsIn(of, 'SENT', subject)).toEqual([]);
  },
};

const draftUpdate: Write = {
  async prepare(of, subject) {
    const draft = await live.api.post<DraftResult>(`/${of.account.id}/drafts`, { subject, plain_text: 'first' });
    const path = `/${of.account.id}/drafts/${draft.id}`;
    return { id: draft.id, call: () => live.api.request('PATCH', path, { plain_text: 'second' }) };
  },
  async check({ account: of, subject, answer, id: first }) {
    await expectOk(await answer);
    const { id } = (await (await answer).json()) as DraftResult;
    await of.settle('INBOX', CALM);
    const left = await subjectsIn(of, 'DRAFTS', subject);
    expect(left.map((email) => [email.draft_id, email.body_plain.trim()])).toEqual([[id, 'second']]);
    const reported = (type: 'email.draft.new' | 'email.draft.delete') =>
      of.events(type).flatMap((call) => (emailOf(call).subject === subject ? [emailOf(call).draft_id] : []));
    expect(reported('email.draft.new')).toEqual([first, id]);
    expect(reported('email.draft.delete')).toEqual([first]);
    expect((await live.api.request('DELETE', `/${of.account.id}/drafts/${id}`)).status).toBe(204);
  },
};

const move: Write = {
  async prepare(of, subject) {
    const { call } = await of.receive('INBOX', subject);
    const target = await live.api.post<Folder>(`/${of.account.id}/folders`, { name: 'Filed' });
    const { id } = emailOf(call);
    const path = `/${of.account.id}/emails/${id}/modify`;
    return { id, call: () => live.api.request('POST', path, { folders_ids: [target.id] }) };
  },
  async check({ account: of, subject, answer, id }) {
    await expectOk(await answer);
    const [inbox, filed] = await Promise.all(
      ['INBOX', 'Filed'].map(async (name) => (await live.api.folder(of.account.id, name)).id),
    );
    expect(((await (await answer).json()) as Email).folders).toEqual([filed]);
    await of.settle('INBOX', CALM);
    expect((await subjectsIn(of, 'Filed', subject)).map((email) => email.id)).toEqual([id]);
    const reported = of
      .events()
      .filter((one) => emailOf(one)?.id === id)
      .map((one) => [one.event.type, emailOf(one).folders]);
    expect(reported).toEqual([
      ['email.new', [inbox]],
      ['email.update', [filed]],
    ]);
  },
};

const WRITES: { title: string; write: Write; steps: Step[] }[] = [
  {
    title: 'a send killed at $name is made once',
    write: sendMadeOnce,
    steps: [
      { name: 'MAIL', smtp: true, at: client(/^MAIL FROM/im) },
      { name: '354, before submitting is committed', smtp: true, at: server(/^354/m), short: true },
      { name: 'SELECT of Sent', at: client(/ SELECT "?Sent/) },
      { name: 'APPEND', at: client(/ APPEND /) },
      { name: 'the answer to APPEND', at: server(/APPENDUID/) },
      { name: 'FETCH of the copy', at: after(server(/APPENDUID/), client(/UID FETCH/)) },
    ],
  },
  {
    title: 'a send killed at $name is reported as unknown and never made again',
    write: sendUnknown,
    steps: [
      {
        name: 'the message, after submitting was committed',
        smtp: true,
        at: after(server(/^354/m), client(/./s)),
        short: true,
      },
      { name: 'the 250 that is lost', smtp: true, at: after(client(/(^|\n)\.\r\n$/), server(/^250/m)), short: true },
    ],
  },
  {
    title: 'a draft update killed at $name leaves one draft',
    write: draftUpdate,
    steps: [
      { name: 'APPEND', at: client(/ APPEND /) },
      { name: 'the answer to APPEND', at: server(/APPENDUID/), short: true },
      { name: 'FETCH of the new one', at: after(server(/APPENDUID/), client(/UID FETCH/)) },
      { name: 'the mark on the old one', at: client(/UID STORE .*Deleted/i) },
      { name: 'EXPUNGE of the old one', at: client(/UID EXPUNGE/) },
      { name: 'the answer to EXPUNGE', at: after(client(/UID EXPUNGE/), server(/ OK /)) },
    ],
  },
  {
    title: 'a move killed at $name is made once',
    write: move,
    steps: [
      { name: 'MOVE', at: client(/UID MOVE/) },
      { name: 'the answer to MOVE', at: server(/COPYUID/), short: true },
    ],
  },
  {
    title: 'a move killed at $name is made once, without MOVE',
    write: { ...move, stripped: true },
    steps: [
      { name: 'COPY', at: client(/UID COPY/) },
      { name: 'the answer to COPY', at: after(client(/UID COPY/), server(/ OK /)), short: true },
      { name: 'the mark on the one that was copied', at: client(/UID STORE .*Deleted/i) },
      { name: 'EXPUNGE', at: client(/ EXPUNGE/) },
      { name: 'the answer to EXPUNGE', at: after(client(/ EXPUNGE/), server(/ OK /)) },
    ],
  },
];

const STEPS = WRITES.flatMap(({ title, write, steps }) =>
  steps
    .filter(({ short }) => isLong() || short)
    .map((step) => ({ ...step, write, title: title.replace('$name', step.name) })),
);
const scenes = new Map<string, Scene>();

/** Ends when the worker is dead. */
let dead: Promise<void>;
let died: () => void;

beforeAll(async () => {
  dead = new Promise((resolve) => (died = resolve));
  // another worker takes the mailboxes over soon
  [live, stripped] = await Promise.all([startLive({ SYNC_HEARTBEAT_TIMEOUT: '4s' }), startDovecotProfile('stripped')]);
  bea = await connectUser(live);
  await Promise.all(STEPS.map(setScene));
  for (const scene of scenes.values()) {
    scene.armed = true;
    scene.answer = scene.call();
  }
  const missing = () => [...scenes.values()].filter(({ armed }) => armed).map(({ title }) => title);
  await waitFor(() => missing().length === 0, {
    timeoutMs: 60_000,
    what: () => `the steps of ${missing().join('; ')}`,
  });
  await live.product.killWorker('SIGKILL');
  died();
  live.product.startWorker();
}, 240_000);

afterAll(async () => {
  await live?.close();
  for (const proxy of proxies) await proxy.close();
  await stripped?.stop();
});

/** Connects an account whose conversations with its servers are watched, and prepares the call. */
async function setScene(step: (typeof STEPS)[number]): Promise<void> {
  const see = async (piece: Piece, smtp: boolean): Promise<void> => {
    const scene = scenes.get(step.title);
    if (!scene?.armed || smtp !== (step.smtp === true) || !step.at(piece)) return;
    scene.armed = false;
    await dead;
  };
  const proxied = async (port: number, smtp = false) => {
    const proxy = await startTappedProxy(port, (piece) => see(piece, smtp));
    proxies.push(proxy);
    return proxy.port;
  };
  const dovecot: DovecotInfo | undefined = step.write.stripped ? stripped : undefined;
  const user = dovecot ? await addUserWhoSends(dovecot) : await addUser();
  const account = await connectLogin(live, {
    ...user,
    imapPort: await proxied(user.imapPort),
    submissionPort: await proxied(mailServers().postfix.submissionPort, true),
  });
  // without a word that steps look for
  const subject = `written ${String(STEPS.indexOf(step)).padStart(3, '0')}`;
  const prepared = await step.write.prepare(account, subject);
  scenes.set(step.title, { ...step, ...prepared, account, subject, armed: false });
}

test.each(STEPS)('$title', ({ title, write }) => write.check(scenes.get(title) as Required<Scene>), 180_000);
