import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { createOutbound } from '../../src/security/outbound.ts';
import type { ServerLogin } from '../../src/contract/account.ts';
import { verifySmtpLogin } from '../../src/smtp/login.ts';
import { createSubmitter, SubmitError, type Submitter, type SubmitterOptions } from '../../src/smtp/submit.ts';
import { at, FakeSmtp, SMTP_EXTENSIONS, type SmtpMoment, type SmtpReaction } from '../helpers/fakes/fake-smtp.ts';
import { waitForCollected } from '../helpers/fakes/garbage.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

const from = 'me@example.test';
const one = ['you@example.test'];
const text = 'Subject: hello\r\n\r\nhow are you\r\n';

let server: FakeSmtp;
let submitter: Submitter;
let begun: number;

const withOptions = (options: Partial<SubmitterOptions> = {}) =>
  createSubmitter({ outbound: createOutbound({ allow: ['127.0.0.0/8'] }), ...options });

beforeEach(async () => {
  server = await new FakeSmtp().listen();
  submitter = withOptions({ times: { firstReply: 200 } });
  begun = 0;
});
afterEach(async () => {
  await submitter.close();
  await waitFor(() => server.sessions.size === 0, { what: 'the connections to end' });
  await server.close();
});

const settings = (more: Partial<ServerLogin> = {}): ServerLogin => ({
  host: '127.0.0.1',
  port: server.port,
  user: 'me@example.test',
  password: 'canary-password',
  encryption: 'NONE',
  ...more,
});

/** The argument of AUTH PLAIN. */
const SASL_PLAIN = Buffer.from('\0me@example.test\0canary-password').toString('base64');

interface Given {
  needsUtf8?: string;
  to?: string[];
  from?: string;
  source?: string | Buffer;
  beforeData?: () => Promise<void>;
  account?: string;
  smtp?: Partial<ServerLogin>;
}

const submit = (given: Given = {}) =>
  submitter.submit(given.account ?? 'acc_a', settings(given.smtp), {
    envelope: {
      from: given.from ?? from,
      to: given.to ?? one,
      ...(given.needsUtf8 ? { needsUtf8: given.needsUtf8 } : {}),
    },
    source: Buffer.from(given.source ?? text),
    beforeData: async () => {
      begun++;
      await given.beforeData?.();
    },
  });

const failure = async (given: Given = {}): Promise<SubmitError> => {
  const error: unknown = await submit(given).then(
    () => new Error('it was sent'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof SubmitError)) throw error;
  return error;
};

/** Resolves when another client has been greeted and has left: earlier input was then processed. */
async function conversation(): Promise<void> {
  const socket = createConnection(server.port, '127.0.0.1');
  await once(socket, 'data');
  socket.end();
  await once(socket, 'close');
}

const sources = () => server.messages.map(({ source }) => source.toString('latin1'));

describe('a message', () => {
  it('is submitted to all recipients', async () => {
    expect(await submit({ to: ['a@example.test', 'b@example.test'] })).toEqual({ rejected: [] });
    expect(server.messages).toMatchObject([{ from, to: ['a@example.test', 'b@example.test'] }]);
    expect(sources()).toEqual([text]);
    expect(begun).toBe(1);
  });

  it('that the server gives another Message-ID is reported with it', async () => {
    const messageId = '<a1@b2.eurprd01.prod.outlook.com>';
    server.script = at('dot', `250 2.0.0 OK ${messageId} [Hostname=b2.eurprd01.prod.outlook.com]`);
    expect(await submit()).toEqual({ rejected: [], messageId });
  });

  it('that Amazon gives another Message-ID is reported with it, which the region completes', async () => {
    const outbound = createOutbound({ allow: ['127.0.0.0/8'] });
    submitter = withOptions({ outbound: { ...outbound, resolve: () => outbound.resolve('127.0.0.1') } });
    server.script = at('dot', '250 Ok 0100018b5c3c0a4f-12ab-000000');
    const smtp = { host: 'email-smtp.eu-west-1.amazonaws.com' };
    const messageId = '<0100018b5c3c0a4f-12ab-000000@eu-west-1.amazonses.com>';
    expect(await submit({ smtp })).toEqual({ rejected: [], messageId });
  });

  it('is distinguished from the answer of a server without PIPELINING', async () => {
    server.extensions = ['AUTH LOGIN'];
    expect(await submit({ to: ['a@example.test', 'b@example.test'] })).toEqual({ rejected: [] });
    expect(sources()).toEqual([text]);
  });

  it.each([
    ['lines that begin with dots', 'a: b\r\n\r\n.\r\n..\r\n.x\r\n.', 'a: b\r\n\r\n.\r\n..\r\n.x\r\n.\r\n'],
    ['bare line feeds', 'a: b\n\nline\n.\nend\n', 'a: b\r\n\r\nline\r\n.\r\nend\r\n'],
    ['bare carriage returns', 'a: b\r\n\r\n\r.\rend\r', 'a: b\r\n\r\n\r\n.\r\nend\r\n'],
    ['no line feed at the end', 'a: b\r\n\r\nend', 'a: b\r\n\r\nend\r\n'],
  ])('arrives whole with %s', async (_, source, arrived) => {
    await submit({ source });
    await submit({ source: 'next: one\r\n\r\n' });
    expect(sources()).toEqual([arrived, 'next: one\r\n\r\n']);
  });

  it('of any bytes arrives unchanged, declared as 8BITMIME', async () => {
    const source = Buffer.concat([
      Buffer.from('a: b\r\n\r\n'),
      Buffer.from([0, 128, 255, 0xc3, 0xa4]),
      Buffer.from('\r\n'),
    ]);
    await submit({ source });
    await submit();
    expect(server.messages[0]?.source.equals(source)).toBe(true);
    expect(server.messages.map(({ parameters }) => parameters)).toEqual([['BODY=8BITMIME'], []]);
  });

  it('of 20 MiB arrives byte for byte', async () => {
    const source = Buffer.from(`a: b\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(270_000)}`);
    await submit({ source });
    expect(server.messages[0]?.source.equals(source)).toBe(true);
  });

  it('goes to those who were not refused, and the others are reported', async () => {
    server.script = (moment, line) =>
      moment === 'RCPT' && line.includes('bad') ? '550 5.1.1 no such user' : undefined;
    const { rejected } = await submit({ to: ['good@example.test', 'bad@Bücher.example', 'bad@example.test'] });
    expect(rejected).toEqual(['bad@Bücher.example', 'bad@example.test']);
    expect(server.messages).toMatchObject([{ to: ['good@example.test'] }]);
  });
});

describe('the connection', () => {
  it('is reused for the next message of the account', async () => {
    for (let i = 0; i < 5; i++) await submit();
    await submit({ account: 'acc_b' });
    expect(server.messages.map(({ connection }) => connection)).toEqual([1, 1, 1, 1, 1, 2]);
    expect(server.count('AUTH')).toBe(2);
  });

  it('is closed when unused for a while, and after enough messages', async () => {
    submitter = withOptions({ idleMs: 50, maxMessages: 2 });
    for (let i = 0; i < 3; i++) await submit();
    expect(server.messages.map(({ connection }) => connection)).toEqual([1, 1, 2]);
    await waitFor(() => server.sessions.size === 0);
    expect(server.count('QUIT')).toBe(2);
  });

  it('is one of three, and more messages wait for one', async () => {
    let most = 0;
    const beforeData = async () => {
      most = Math.max(most, server.sessions.size);
      await waitFor(() => server.sessions.size >= 3);
    };
    await Promise.all(Array.from({ length: 12 }, (_, index) => submit({ beforeData, source: `n: ${index}\r\n\r\n` })));
    expect(most).toBe(3);
    expect(server.connections).toBe(3);
    expect(new Set(sources()).size).toBe(12);
  });

  it('is one of fewer where the server allows no more', async () => {
    server.script = (moment, _, session) =>
      moment === 'greeting' && server.sessions.size > 1 && session ? '421 4.7.0 too many connections' : undefined;
    await Promise.all(Array.from({ length: 6 }, () => submit()));
    expect(server.messages).toHaveLength(6);
  });

  it('is waited for no longer than the limit', async () => {
    submitter = withOptions({ maxPerAccount: 1, waitMs: 100 });
    let go = () => {};
    const held = submit({ beforeData: () => new Promise((resolve) => (go = resolve)) });
    await waitFor(() => begun === 1);
    expect(await failure()).toMatchObject({ outcome: 'not_sent', code: 'provider_error', temporary: true });
    go();
    await held;
  });

  it.each<[string, (session: FakeSmtp) => void]>([
    ['was ended by the server', () => server.sessions.forEach(({ socket }) => socket.end())],
    ['was reset', () => server.sessions.forEach(({ socket }) => socket.resetAndDestroy())],
    ['is ended on MAIL', () => (server.script = at('MAIL', 'drop', 1))],
    ['is closed with 421', () => (server.script = at('MAIL', '421 4.4.2 idle for too long', 1))],
    ['is closed with 421 on RCPT', () => (server.script = at('RCPT', '421 4.4.2 bye', 1))],
    ['carried too many', () => (server.script = at('MAIL', '452 4.5.3 too many messages', 1))],
    ['is ended on DATA', () => (server.script = at('DATA', 'drop', 1))],
    ['stops responding', () => (server.script = at('MAIL', 'silence', 1))],
  ])('is replaced unseen when it %s', async (_, happen) => {
    await submit();
    happen(server);
    expect(await submit()).toEqual({ rejected: [] });
    expect(server.messages).toMatchObject([{ connection: 1 }, { connection: 2 }]);
    expect(begun).toBe(2);
  });

  it('is opened again for other settings, and closed when the account is removed', async () => {
    await submit();
    await submit({ smtp: { password: 'another' } });
    expect(server.messages).toMatchObject([{ connection: 1 }, { connection: 2 }]);
    await waitFor(() => server.sessions.size === 1);
    await submitter.drop('acc_a');
    await waitFor(() => server.sessions.size === 0);
    await submit();
    expect(server.messages[2]).toMatchObject({ connection: 3 });
  });

  it('and its password leave memory when unused, and immediately when the account is removed', async () => {
    const once = async (account: string) => {
      const login = settings();
      await submitter.submit(account, login, {
        envelope: { from, to: one },
        source: Buffer.from(text),
        beforeData: async () => {},
      });
      return new WeakRef(login);
    };
    submitter = withOptions({ idleMs: 50 });
    const unused = await once('acc_a');
    await waitFor(() => server.sessions.size === 0);
    await waitForCollected(unused, 'the login of an unused connection');
    submitter = withOptions();
    const removed = await once('acc_a');
    await submitter.drop('acc_a');
    await waitFor(() => server.sessions.size === 0);
    await waitForCollected(removed, 'the login of a removed account');
  });

  it('is reused after a refusal', async () => {
    server.script = at('RCPT', '550 5.1.1 no such user', 1);
    await failure();
    await waitFor(() => server.count('RSET') === 1);
    await submit();
    expect(server.connections).toBe(1);
    expect(server.messages).toHaveLength(1);
  });
});

describe('a refusal', () => {
  const refusals: [SmtpMoment, SmtpReaction, string, RegExp][] = [
    ['greeting', '554 5.7.1 go away', 'provider_error', /go away/],
    ['greeting', '421 4.3.2 busy', 'provider_error', /busy/],
    ['AUTH', '535 5.7.8 wrong me@example.test canary-password', 'invalid_credentials', /refused the login/],
    ['AUTH', `535 5.7.8 no: ${SASL_PLAIN}`, 'invalid_credentials', /refused the login: 535 5\.7\.8 no: …$/],
    ['AUTH', '454 4.7.0 later', 'provider_error', /later/],
    ['MAIL', '550 5.7.1 not yours', 'provider_rejected', /refused the sender: 550 5\.7\.1 not yours/],
    ['MAIL', '451 4.3.0 later', 'provider_error', /refused the sender: 451/],
    ['MAIL', '421 4.3.0 closing', 'provider_error', /421/],
    ['RCPT', '550 5.1.1 no such user', 'provider_rejected', /refused every recipient: 550/],
    ['RCPT', '450 4.2.0 greylisted', 'provider_error', /refused every recipient: 450/],
    ['DATA', '554 5.6.0 no', 'provider_rejected', /refused the message: 554/],
    ['DATA', '452 4.3.1 full', 'provider_error', /refused the message: 452/],
    ['dot', '552 5.3.4 message too large', 'provider_rejected', /refused the message: 552 5\.3\.4 message too large/],
    ['dot', '451 4.3.0 later', 'provider_error', /refused the message: 451/],
    ['dot', '421 4.3.0 closing', 'provider_error', /refused the message: 421/],
  ];
  it.each(refusals)('at %s of "%s" is %s, and nothing was sent', async (moment, answer, code, detail) => {
    for (const pipelining of [true, false]) {
      server.extensions = SMTP_EXTENSIONS.filter((name) => pipelining || name !== 'PIPELINING');
      server.script = at(moment, answer);
      const error = await failure({ account: `acc_${pipelining}` });
      expect(error).toMatchObject({ outcome: 'not_sent', code, side: 'smtp', temporary: code === 'provider_error' });
      expect(error.detail).toMatch(detail);
      expect(error.detail).not.toMatch(/@|canary/);
    }
    expect(server.messages).toEqual([]);
    expect(begun).toBe(moment === 'dot' ? 2 : 0);
  });

  it.each([
    ['450', '550', 'provider_rejected'],
    ['550', '450', 'provider_rejected'],
    ['450', '451', 'provider_error'],
  ])('of every recipient with %s and %s is %s', async (first, second, code) => {
    server.script = (moment, line) =>
      moment === 'RCPT' ? (line.includes('a@') ? `${Number(first)} no` : `${Number(second)} no`) : undefined;
    expect(await failure({ to: ['a@example.test', 'b@example.test'] })).toMatchObject({ outcome: 'not_sent', code });
  });

  describe.each([
    { pipelining: true, reply: '550 5.1.1 no such user', code: 'provider_rejected', temporary: false },
    { pipelining: false, reply: '550 5.1.1 no such user', code: 'provider_rejected', temporary: false },
    { pipelining: true, reply: '450 4.2.1 try later', code: 'provider_error', temporary: true },
    { pipelining: false, reply: '450 4.2.1 try later', code: 'provider_error', temporary: true },
  ])(
    'of more recipients than a server refuses on one connection, PIPELINING: $pipelining, with "$reply"',
    ({ pipelining, reply, code, temporary }) => {
      const many = Array.from({ length: 10 }, (_, n) => `bad${n}@example.test`);
      /** what the server does at the fifth, and when it refuses for good in place of `reply` */
      let [atLimit, forGood] = ['421 4.7.0 too many errors', 'none'];
      beforeEach(() => {
        [atLimit, forGood] = ['421 4.7.0 too many errors', 'none'];
        server.extensions = SMTP_EXTENSIONS.filter((name) => pipelining || name !== 'PIPELINING');
        const refused = new WeakMap<object, number>();
        server.script = (moment, line, session) => {
          if (moment !== 'RCPT' || !line.includes('bad')) return undefined;
          const count = (refused.get(session) ?? 0) + 1;
          refused.set(session, count);
          if (count > 4) return atLimit as SmtpReaction;
          return (line.includes(forGood) ? '550 5.1.1 no such user' : reply) as SmtpReaction;
        };
      });

      it('sends it to the others', async () => {
        expect(await submit({ to: [...many, ...one] })).toEqual({ rejected: many });
        expect(server.messages).toMatchObject([{ to: one, connection: 3 }]);
        expect(begun).toBe(1);
      });

      it('sends it to the others when the server says nothing before it hangs up', async () => {
        atLimit = 'drop';
        expect(await submit({ to: [...many, ...one] })).toEqual({ rejected: many });
        expect(server.messages).toMatchObject([{ to: one, connection: 3 }]);
      });

      it('is a refusal like that of one when they are all', async () => {
        const error = await failure({ to: many });
        expect(error).toMatchObject({ outcome: 'not_sent', code, temporary });
        expect(error.detail).toContain(`refused every recipient: ${reply}`);
        expect(begun).toBe(0);
      });

      it('is a refusal for good when they are all, and one of them is refused for good', async () => {
        forGood = 'bad0';
        const error = await failure({ to: many });
        expect(error).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected', temporary: false });
        expect(error.detail).toContain('refused every recipient: 550 5.1.1');
      });
    },
  );

  it('in the middle of the message ends it', async () => {
    server.script = at('data', '552 5.3.4 too much');
    const source = `a: b\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(100_000)}`;
    const error = await failure({ source });
    expect(error).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(error.detail).toMatch(/552/);
    await waitFor(() => server.sessions.size === 0);
    expect(server.messages).toEqual([]);
  });

  it('precedes any attempt when the message is larger than the server accepts', async () => {
    server.extensions = [...SMTP_EXTENSIONS, 'SIZE 1000'];
    const error = await failure({ source: `a: b\r\n\r\n${'x'.repeat(1000)}` });
    expect(error).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(error.detail).toMatch(/larger than the 1000 bytes that the server accepts/);
    expect(server.count('MAIL')).toBe(0);
    await submit();
    expect(server.messages).toMatchObject([{ connection: 1, parameters: [`SIZE=${text.length}`] }]);
  });

  it('precedes any attempt when an address needs what the server lacks', async () => {
    server.extensions = SMTP_EXTENSIONS.filter((name) => name !== 'SMTPUTF8');
    const recipient = await failure({ to: [...one, 'jürgen@example.test'] });
    expect(recipient).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(recipient.detail).toMatch(/a recipient/);
    expect(recipient.detail).not.toMatch(/rgen/);
    expect((await failure({ from: 'jürgen@example.test' })).detail).toMatch(/the sender/);
    expect(server.count('MAIL')).toBe(0);
    await submit({ to: ['me@bücher.example'] });
    expect(server.messages).toMatchObject([{ to: ['me@xn--bcher-kva.example'], parameters: [] }]);
  });

  it('does not come where the server knows such addresses', async () => {
    await submit({ to: ['jürgen@bücher.example'] });
    expect(server.messages).toMatchObject([{ to: ['jürgen@bücher.example'], parameters: ['SMTPUTF8'] }]);
  });

  it('meets an address of a header alone, which nodemailer does not announce', async () => {
    expect(await failure({ needsUtf8: 'reply_to.0.email' })).toMatchObject({
      detail:
        'SMTPUTF8 is announced for the sender and recipients only, and reply_to.0.email has other characters before its @',
    });
    await submit({ needsUtf8: 'reply_to.0.email', to: ['jürgen@bücher.example'] });
    expect(server.messages).toHaveLength(1);
  });

  it.each(['a@b\r\nRCPT TO:<c@d', 'a@b> SIZE=1', ''])('meets the address %j', async (address) => {
    expect(await failure({ to: [address] })).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(server.count('MAIL')).toBe(0);
    await submit();
  });

  it('of the login is reported to all waiting callers after one attempt', async () => {
    server.script = at('AUTH', '535 5.7.8 no');
    const errors = await Promise.all(Array.from({ length: 8 }, () => failure()));
    expect(new Set(errors.map(({ code }) => code))).toEqual(new Set(['invalid_credentials']));
    expect(server.count('AUTH')).toBeLessThanOrEqual(3);
  });
});

describe('a connection that breaks', () => {
  it.each<[SmtpMoment, SmtpReaction, SubmitError['outcome']]>([
    ['greeting', 'drop', 'not_sent'],
    ['EHLO', 'drop', 'not_sent'],
    ['AUTH', 'drop', 'not_sent'],
    ['MAIL', 'drop', 'not_sent'],
    ['RCPT', 'drop', 'not_sent'],
    ['DATA', 'drop', 'not_sent'],
    ['dot', 'drop', 'unknown'],
    ['dot', 'take and drop', 'unknown'],
    ['dot', '354 what', 'unknown'],
  ])('at %s (%s) leaves the message %s', async (moment, reaction, outcome) => {
    server.script = at(moment, reaction);
    const error = await failure();
    expect(error).toMatchObject({ outcome, code: 'provider_error', temporary: outcome === 'not_sent' });
    expect(server.messages).toHaveLength(reaction === 'take and drop' ? 1 : 0);
    expect(begun).toBe(moment === 'dot' ? 1 : 0);
  });

  it('after 354 leaves it not sent, and beforeData has run to its end', async () => {
    let ended = false;
    const beforeData = async () => {
      server.sessions.forEach(({ socket }) => socket.destroy());
      await waitFor(() => server.sessions.size === 0);
      await conversation();
      ended = true;
    };
    expect(await failure({ beforeData })).toMatchObject({ outcome: 'not_sent', code: 'provider_error' });
    expect(ended).toBe(true);
  });

  it('in the middle of a large message leaves it not sent', async () => {
    server.script = at('data', 'drop');
    const source = `a: b\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(200_000)}`;
    expect(await failure({ source })).toMatchObject({ outcome: 'not_sent', code: 'provider_error' });
  });

  it('is not one that answered before the message had ended', async () => {
    server.script = at('data', '250 2.0.0 accepted');
    const source = `a: b\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(200_000)}`;
    expect(await failure({ source })).toMatchObject({ outcome: 'not_sent', code: 'provider_error' });
    expect(server.messages).toEqual([]);
  });

  it('is never opened to an address that is not allowed', async () => {
    submitter = createSubmitter({ outbound: createOutbound({ allow: [] }) });
    expect((await failure()).detail).toMatch(/not allowed/);
    expect(server.connections).toBe(0);
  });
});

describe('beforeData', () => {
  it('that fails ends the connection, and its error is thrown unchanged', async () => {
    class Mine extends Error {}
    const mine = new Mine('no');
    await expect(submit({ beforeData: () => Promise.reject(mine) })).rejects.toBe(mine);
    await waitFor(() => server.sessions.size === 0);
    expect(mine).not.toHaveProperty('code');
    expect(server.messages).toEqual([]);
    await submit();
    expect(sources()).toEqual([text]);
  });

  it('may take its time', async () => {
    const beforeData = async () => {
      await conversation();
      expect(server.messages).toEqual([]);
    };
    await submit({ beforeData });
    expect(server.messages).toHaveLength(1);
  });
});

it('is given as long for a login as it has when the mailbox is connected', async () => {
  const now = performance.now.bind(performance);
  let passedMs = 0;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + passedMs);
  const outbound = createOutbound({ allow: ['127.0.0.0/8'] });
  const resolve = async (host: string) => {
    passedMs += 15_000;
    return outbound.resolve(host);
  };
  try {
    const slow = { ...outbound, resolve };
    await verifySmtpLogin(settings(), { outbound: slow });
    submitter = createSubmitter({ outbound: slow });
    await submit();
  } finally {
    clock.mockRestore();
  }
  expect(server.messages).toHaveLength(1);
});

describe('a silent server', () => {
  it('is given up in time when it is reached', async () => {
    submitter = withOptions({ loginTimeoutMs: 300 });
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => sockets.add(socket));
    const port = await listenOnFreePort(silent);
    const errors = await Promise.all(Array.from({ length: 8 }, () => failure({ smtp: { port } })));
    for (const error of errors) {
      expect(error).toMatchObject({ outcome: 'not_sent', code: 'provider_error' });
      expect(error.detail).toMatch(/timed out/);
    }
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => silent.close(resolve));
  });

  it.each<[SmtpMoment, SubmitError['outcome']]>([
    ['MAIL', 'not_sent'],
    ['RCPT', 'not_sent'],
    ['DATA', 'not_sent'],
    ['dot', 'unknown'],
  ])('to %s is given up, %s', async (moment, outcome) => {
    submitter = withOptions({ times: { reply: 200, final: 200 } });
    server.script = at(moment, 'silence');
    expect(await failure()).toMatchObject({
      outcome,
      code: 'provider_error',
      detail: expect.stringMatching(/timed out/),
    });
    await waitFor(() => server.sessions.size === 0);
  });

  it('has the 10 minutes of RFC 5321, 4.5.3.2.6, after the end of a message', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    try {
      await submit();
      expect(Math.max(...timers.mock.calls.map(([, ms = 0]) => ms))).toBeGreaterThanOrEqual(600_000);
    } finally {
      timers.mockRestore();
    }
  });

  it('that sends a word periodically is given up, too', async () => {
    submitter = withOptions({ times: { reply: 200 } });
    server.script = (moment, _, session) => {
      if (moment !== 'MAIL') return undefined;
      const timer = setInterval(() => session.socket.write('250-still here\r\n'), 20);
      session.socket.on('close', () => clearInterval(timer));
      return 'silence';
    };
    expect(await failure()).toMatchObject({ outcome: 'not_sent', detail: expect.stringMatching(/timed out/) });
  });

  it('that accepts no further bytes of a message is given up, and the message is not sent', async () => {
    submitter = withOptions({ times: { stall: 300 } });
    server.script = (moment, _, session) => {
      if (moment === 'data') session.socket.pause();
      return undefined;
    };
    const source = `a: b\r\n\r\n${`${'x'.repeat(76)}\r\n`.repeat(400_000)}`;
    expect(await failure({ source })).toMatchObject({
      outcome: 'not_sent',
      detail: expect.stringMatching(/timed out/),
    });
    server.sessions.forEach(({ socket }) => socket.resume());
  });
});

it('leaves nothing behind after many messages', async () => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on('warning', warned);
  submitter = withOptions({ maxPerAccount: 1 });
  server.script = (moment, line) => (moment === 'RCPT' && line.includes('bad') ? '550 5.1.1 no' : undefined);
  for (let i = 0; i < 40; i++) await (i % 4 ? submit() : failure({ to: ['bad@example.test'] }));
  process.off('warning', warned);
  expect(warnings).toEqual([]);
  expect(server.connections).toBe(1);
  await submitter.close();
  await waitFor(() => server.sessions.size === 0);
});
