import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Email } from '../../src/contract/email.ts';
import type { Folder } from '../../src/contract/folder.ts';
import type { DraftResult } from '../../src/contract/sending.ts';
import {
  type Connected,
  connectLogin,
  connectUser,
  type ConnectedUser,
  type OwnLive,
  startLive,
} from '../helpers/live.ts';
import type { DovecotInfo, RunningDovecot } from '../helpers/dovecot.ts';
import { addUserWhoSends, startDovecotProfile } from '../helpers/dovecot-profiles.ts';
import { isLong } from '../helpers/long.ts';
import { mailServers } from '../helpers/mail-servers.ts';
import { addUser } from '../helpers/mail-user.ts';
import { emailOf } from '../helpers/receiver.ts';
import { type Piece, startTappedProxy, type TappedProxy } from '../helpers/tapped-proxy.ts';
import { waitFor } from '../helpers/wait.ts';

/*
 * kill -9 of the worker at the numbered steps of a send, a draft update and a move: just as a piece of the conversation
 * with the mail server passes, which then never arrives. `npm run test:crash` goes through all of them, `npm test` through
 * those at which most could go wrong.
 */
const ALL = isLong();

interface Step {
  name: string;
  at: (piece: Piece) => boolean;
  /** part of the short form */
  short?: boolean;
}

const client = (pattern: RegExp) => (piece: Piece) => piece.from === 'client' && pattern.test(piece.text);
const server = (pattern: RegExp) => (piece: Piece) => piece.from === 'server' && pattern.test(piece.text);
/** The answer to a command, or whatever comes after it on that connection: the next piece that fits. */
const after = (first: Step['at'], second: Step['at']): Step['at'] => {
  let passed = false;
  return (piece) => {
    if (passed) return second(piece);
    passed = first(piece);
    return false;
  };
};
const steps = (all: Step[]) => all.filter(({ short }) => ALL || short);

let live: OwnLive;
let bea: ConnectedUser;
let anna: Connected;
let plain: Connected;
let stripped: RunningDovecot;
const proxies: TappedProxy[] = [];
/** the step that is waited for; when it comes the worker dies */
let armed: Step['at'] | undefined;
let died: Promise<void> = Promise.resolve();
let dying = false;

async function see(piece: Piece): Promise<void> {
  if (!armed?.(piece)) return;
  armed = undefined;
  dying = true;
  died = live.product.killWorker('SIGKILL');
  await died;
}

beforeAll(async () => {
  // another worker takes the mailboxes over soon
  live = await startLive({ SYNC_HEARTBEAT_TIMEOUT: '4s' });
  stripped = await startDovecotProfile('stripped');
  const smtp = await startTappedProxy(mailServers().postfix.submissionPort, see);
  proxies.push(smtp);
  const connect = async (dovecot?: DovecotInfo) => {
    const user = dovecot ? await addUserWhoSends(dovecot) : await addUser();
    const imap = await startTappedProxy(user.imapPort, see);
    proxies.push(imap);
    return connectLogin(live, { ...user, imapPort: imap.port, submissionPort: smtp.port });
  };
  bea = await connectUser(live);
  anna = await connect();
  plain = await connect(stripped);
}, 120_000);

afterAll(async () => {
  await live?.close();
  for (const proxy of proxies) await proxy.close();
  await stripped?.stop();
});

/** Makes a call while the worker dies at the step, starts another worker, and returns the response that the caller gets. */
async function killedAt(step: Step, call: () => Promise<Response>): Promise<Response> {
  dying = false;
  armed = step.at;
  const answer = call();
  await waitFor(() => dying, { timeoutMs: 20_000, what: `the step ${step.name}` });
  await died;
  live.product.startWorker();
  return answer;
}

const subjectsIn = async (of: Connected, folder: string, subject: string) => {
  const role = (await live.api.folders(of.account.id)).find((one) => one.role === folder || one.name === folder);
  const query = { subject, limit: '50' };
  return (
    await live.api.get<{ data: Email[] }>(`/${of.account.id}/folders/${role?.id}/emails?${new URLSearchParams(query)}`)
  ).data;
};

describe('a send', () => {
  const takenBySmtp: Step[] = [
    { name: 'MAIL', at: client(/^MAIL FROM/im) },
    { name: '354, before submitting is committed', at: server(/^354/m), short: true },
  ];
  const maybeTaken: Step[] = [
    { name: 'the message, after submitting was committed', at: after(server(/^354/m), client(/./s)), short: true },
    { name: 'the 250 that is lost', at: after(client(/(^|\n)\.\r\n$/), server(/^250/m)), short: true },
  ];
  const filing: Step[] = [
    { name: 'SELECT of Sent', at: client(/ SELECT "?Sent/) },
    { name: 'APPEND', at: client(/ APPEND /) },
    { name: 'the answer to APPEND', at: server(/APPENDUID/) },
    { name: 'FETCH of the copy', at: after(server(/APPENDUID/), client(/UID FETCH/)) },
  ];

  test.each(steps([...takenBySmtp, ...filing]))(
    'killed at $name is made once',
    async (step) => {
      const subject = `send ${step.name}`;
      const answer = await killedAt(step, () =>
        live.api.request('POST', `/${anna.account.id}/emails/send`, {
          to: [{ email: bea.user.user }],
          subject,
          plain_text: 'once',
        }),
      );
      expect({ status: answer.status, body: await answer.clone().json() }).toMatchObject({ status: 200 });
      const { id } = (await answer.json()) as { id: string };
      await bea.event('email.new', (call) => emailOf(call).subject === subject, { timeoutMs: 60_000 });
      await anna.event('email.new', (call) => emailOf(call).id === id, { timeoutMs: 60_000 });
      await Promise.all([anna.settle('INBOX', { timeoutMs: 90_000 }), bea.settle('INBOX', { timeoutMs: 90_000 })]);
      expect((await subjectsIn(bea, 'INBOX', subject)).length).toBe(1);
      expect((await subjectsIn(anna, 'SENT', subject)).map((email) => email.id)).toEqual([id]);
      expect(anna.events('email.new').filter((call) => emailOf(call).subject === subject)).toHaveLength(1);
    },
    180_000,
  );

  test.each(steps(maybeTaken))(
    'killed at $name is reported as unknown and never made again',
    async (step) => {
      const subject = `send ${step.name}`;
      const answer = await killedAt(step, () =>
        live.api.request('POST', `/${anna.account.id}/emails/send`, {
          to: [{ email: bea.user.user }],
          subject,
          plain_text: 'once at most',
        }),
      );
      expect(answer.status).toBe(502);
      expect(((await answer.json()) as { detail: string }).detail).toContain('may have been sent');
      await Promise.all([anna.settle('INBOX', { timeoutMs: 90_000 }), bea.settle('INBOX', { timeoutMs: 90_000 })]);
      expect((await subjectsIn(bea, 'INBOX', subject)).length).toBeLessThanOrEqual(1);
      expect(await subjectsIn(anna, 'SENT', subject)).toEqual([]);
    },
    180_000,
  );
});

describe('a draft update', () => {
  test.each(
    steps([
      { name: 'APPEND', at: client(/ APPEND /) },
      { name: 'the answer to APPEND', at: server(/APPENDUID/), short: true },
      { name: 'FETCH of the new one', at: after(server(/APPENDUID/), client(/UID FETCH/)) },
      { name: 'the mark on the old one', at: client(/UID STORE .*Deleted/i) },
      { name: 'EXPUNGE of the old one', at: client(/UID EXPUNGE/) },
      { name: 'the answer to EXPUNGE', at: after(client(/UID EXPUNGE/), server(/ OK /)) },
    ]),
  )(
    'killed at $name leaves one draft',
    async (step) => {
      const subject = `draft ${step.name}`;
      const draft = await live.api.post<DraftResult>(`/${anna.account.id}/drafts`, { subject, plain_text: 'first' });
      const answer = await killedAt(step, () =>
        live.api.request('PATCH', `/${anna.account.id}/drafts/${draft.id}`, { plain_text: 'second' }),
      );
      expect(answer.status).toBe(200);
      const { id } = (await answer.json()) as DraftResult;
      await anna.settle('INBOX', { timeoutMs: 90_000 });
      const left = await subjectsIn(anna, 'DRAFTS', subject);
      expect(left.map((email) => [email.draft_id, email.body_plain.trim()])).toEqual([[id, 'second']]);
      const reported = (type: 'email.draft.new' | 'email.draft.delete') =>
        anna.events(type).flatMap((call) => (emailOf(call).subject === subject ? [emailOf(call).draft_id] : []));
      expect(reported('email.draft.new')).toEqual([draft.id, id]);
      expect(reported('email.draft.delete')).toEqual([draft.id]);
      expect((await live.api.request('DELETE', `/${anna.account.id}/drafts/${id}`)).status).toBe(204);
    },
    180_000,
  );
});

describe('a move', () => {
  const withMove: Step[] = [
    { name: 'MOVE', at: client(/UID MOVE/) },
    { name: 'the answer to MOVE', at: server(/COPYUID/), short: true },
  ];
  const byCopy: Step[] = [
    { name: 'COPY', at: client(/UID COPY/) },
    { name: 'the answer to COPY', at: after(client(/UID COPY/), server(/ OK /)), short: true },
    { name: 'the mark on the one that was copied', at: client(/UID STORE .*Deleted/i) },
    { name: 'EXPUNGE', at: client(/ EXPUNGE/) },
    { name: 'the answer to EXPUNGE', at: after(client(/ EXPUNGE/), server(/ OK /)) },
  ];

  async function filedFolder(of: Connected): Promise<Folder> {
    const known = (await live.api.folders(of.account.id)).find(({ name }) => name === 'Filed');
    return known ?? live.api.post<Folder>(`/${of.account.id}/folders`, { name: 'Filed' });
  }

  async function movedOnce(of: Connected, step: Step): Promise<void> {
    const subject = `move ${step.name}`;
    const { call } = await of.receive('INBOX', subject);
    const { id } = emailOf(call);
    const target = await filedFolder(of);
    const answer = await killedAt(step, () =>
      live.api.request('POST', `/${of.account.id}/emails/${id}/modify`, { folders_ids: [target.id] }),
    );
    expect({ status: answer.status, body: await answer.clone().json() }).toMatchObject({ status: 200 });
    expect(((await answer.json()) as Email).folders).toEqual([target.id]);
    await of.settle('INBOX', { timeoutMs: 90_000 });
    expect((await subjectsIn(of, 'Filed', subject)).map((email) => email.id)).toEqual([id]);
    const reported = of
      .events()
      .filter((one) => emailOf(one)?.id === id)
      .map((one) => one.event.type);
    expect(reported).toEqual(['email.new', 'email.update']);
  }

  test.each(steps(withMove))('killed at $name is made once', (step) => movedOnce(anna, step), 180_000);
  test.each(steps(byCopy))('killed at $name is made once, without MOVE', (step) => movedOnce(plain, step), 180_000);
});
