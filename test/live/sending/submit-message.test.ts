import { afterAll, describe, expect, it } from '@jest/globals';
import { createOutbound } from '../../../src/security/outbound.ts';
import type { ServerLogin } from '../../../src/contract/account.ts';
import { createSubmitter, SubmitError, type Submitted } from '../../../src/smtp/submit.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { openMailbox } from '../../helpers/product/mailbox.ts';
import { startTcpProxy } from '../../helpers/fakes/tcp-proxy.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

const outbound = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: '127.0.0.1' }] });
const submitter = createSubmitter({ outbound });
afterAll(() => submitter.close());

const settings = (user: MailUser, more: Partial<ServerLogin> = {}): ServerLogin => ({
  host: 'localhost',
  port: user.submissionPort,
  user: user.user,
  password: user.password,
  encryption: 'STARTTLS',
  ...more,
});

const submit = (smtp: ServerLogin, to: string[], source: string): Promise<Submitted> =>
  submitter.submit(`acc ${smtp.user} ${smtp.port} ${smtp.encryption}`, smtp, {
    envelope: { from: smtp.user, to },
    source: Buffer.from(source),
    beforeData: async () => {},
  });

const failure = (...given: Parameters<typeof submit>): Promise<SubmitError> =>
  submit(...given).then(
    () => Promise.reject(new Error('it was sent')),
    (error: SubmitError) => error,
  );

/** The bodies that have come to the user's INBOX. */
async function bodiesOf(user: MailUser, count: number): Promise<string[]> {
  const mailbox = await openMailbox(user);
  try {
    const uids = await waitFor(async () => {
      await mailbox.client.noop();
      const all = await mailbox.uids('INBOX');
      return all.length >= count && all;
    });
    const lock = await mailbox.client.getMailboxLock('INBOX');
    try {
      const found = await mailbox.client.fetchAll(uids, { source: true }, { uid: true });
      return found.map(({ source }) => {
        const text = source?.toString('latin1') ?? '';
        return text.slice(text.indexOf('\r\n\r\n') + 4);
      });
    } finally {
      lock.release();
    }
  } finally {
    await mailbox.close();
  }
}

describe('a message', () => {
  it.each(['STARTTLS', 'SSL', 'NONE'] as const)('arrives as it was handed over with %s', async (encryption) => {
    const [user, reader] = [await addUser(), await addUser()];
    const port = encryption === 'SSL' ? mailServers().postfix.smtpsPort : user.submissionPort;
    const smtp = settings(user, { encryption, port });
    const small = '.\r\n..two\r\n\r\nend.\r\n';
    const large = `${'x'.repeat(76)}\r\n`.repeat(30_000);
    for (const body of [small, large, small]) {
      expect(await submit(smtp, [reader.user], `Subject: one\r\nFrom: <${user.user}>\r\n\r\n${body}`)).toEqual({
        rejected: [],
      });
    }
    expect((await bodiesOf(reader, 3)).sort()).toEqual([small, large, small].sort());
  });

  it('goes to the accepted recipients', async () => {
    const [user, reader] = [await addUser(), await addUser()];
    const refused = ['refused.one@example.test', 'tempfail.two@example.test'];
    const { rejected } = await submit(settings(user), [...refused, reader.user], 'Subject: a\r\n\r\nbody\r\n');
    expect(rejected).toEqual(refused);
    expect(await bodiesOf(reader, 1)).toEqual(['body\r\n']);
  });
});

describe('an address beyond ASCII', () => {
  const source = 'Subject: a\r\n\r\nbody\r\n';

  it('is accepted by a server with SMTPUTF8', async () => {
    expect(await submit(settings(await addUser()), ['jörg@bücher.test'], source)).toEqual({ rejected: [] });
  });

  it('needs no SMTPUTF8 for its domain', async () => {
    const smtp = settings(await addUser(), { port: mailServers().postfix.asciiPort });
    expect(await submit(smtp, ['ada@bücher.test'], source)).toEqual({ rejected: [] });
  });

  it('is refused by the name of its field where the server has no SMTPUTF8', async () => {
    const smtp = settings(await addUser(), { port: mailServers().postfix.asciiPort });
    const message = {
      envelope: { from: smtp.user, to: ['jörg@bücher.test'], needsUtf8: 'to.0.email' },
      source: Buffer.from(source),
      beforeData: () => Promise.reject(new Error('it was submitted')),
    };
    await expect(submitter.submit('acc of ascii', smtp, message)).rejects.toMatchObject({
      ...{ outcome: 'not_sent', code: 'provider_rejected', temporary: false },
      detail: expect.stringMatching(/offers no SMTPUTF8\), and to\.0\.email/) as unknown,
    });
  });
});

describe('a refusal', () => {
  const source = 'Subject: a\r\n\r\nbody\r\n';

  it('of every recipient is reported as such', async () => {
    const smtp = settings(await addUser());
    const forGood = await failure(smtp, ['refused.one@example.test', 'tempfail@example.test'], source);
    expect(forGood).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(forGood.detail).toMatch(/refused every recipient: 550 5\.7\.1/);
    const forNow = await failure(smtp, ['tempfail@example.test'], source);
    expect(forNow).toMatchObject({ outcome: 'not_sent', code: 'provider_error', temporary: true });
  });

  it('of a login is reported', async () => {
    const smtp = settings(await addUser(), { password: 'canary-wrong' });
    const error = await failure(smtp, ['you@example.test'], source);
    expect(error).toMatchObject({ outcome: 'not_sent', code: 'invalid_credentials' });
    expect(error.detail).not.toMatch(/canary/);
  });

  it('of a message over the limit is reported, and the next is sent', async () => {
    const { messageSizeLimit } = mailServers().postfix;
    const [user, reader] = [await addUser(), await addUser()];
    const error = await failure(settings(user), [reader.user], `${source}${'x'.repeat(messageSizeLimit)}`);
    expect(error).toMatchObject({ outcome: 'not_sent', code: 'provider_rejected' });
    expect(error.detail).toContain(`larger than the ${messageSizeLimit} bytes that the server accepts`);
    await submit(settings(user), [reader.user], source);
    expect(await bodiesOf(reader, 1)).toEqual(['body\r\n']);
  });
});

it('an idle connection that died is replaced silently', async () => {
  const [user, reader] = [await addUser(), await addUser()];
  const proxy = await startTcpProxy(user.submissionPort);
  const smtp = settings(user, { port: proxy.port });
  await submit(smtp, [reader.user], 'Subject: a\r\n\r\none\r\n');
  proxy.freeze();
  await submit(smtp, [reader.user], 'Subject: a\r\n\r\ntwo\r\n');
  proxy.cut();
  proxy.restore();
  await submit(smtp, [reader.user], 'Subject: a\r\n\r\nthree\r\n');
  expect((await bodiesOf(reader, 3)).sort()).toEqual(['one\r\n', 'three\r\n', 'two\r\n']);
  await proxy.close();
});
