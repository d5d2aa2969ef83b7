import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { withDeadline } from '../../../src/async.ts';
import type { Account } from '../../../src/contract/account.ts';
import type { Email } from '../../../src/contract/email.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { startTcpProxy, type TcpProxy } from '../../helpers/fakes/tcp-proxy.ts';
import { intentFor, type Page } from '../../helpers/product/api.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { type Deployment, engineMissing, imageSize, startDeployment } from './deployment.ts';

/**
 * The image of the Dockerfile and docker-compose.yml on a container engine: mail and sends while its containers crash, with
 * mail servers and a webhook receiver on this machine.
 */

const MAILBOXES = 5;
const MAILS_PER_ROUND = 50;
const SENDS_PER_ROUND = 5;
/** the container that crashes in each round */
const VICTIMS = 'worker server temporal postgres worker temporal worker postgres s3 server'.split(' ');

interface Connected {
  user: MailUser;
  account: Account;
  box: Mailbox;
  /** appended messages by subject */
  appended: Map<string, Buffer>;
}

const missing = engineMissing();
if (missing !== undefined) process.stderr.write(`Left out: tests on a container engine (${missing})\n`);

(missing === undefined ? describe : describe.skip)('docker compose up', () => {
  let deployment: Deployment;
  let receiver: Receiver;
  let recipient: MailUser;
  let mailboxes: Connected[];
  const proxies: TcpProxy[] = [];
  /** subjects of the emails that were sent */
  const sent: string[] = [];
  /** of those whose submission a crash cut off: the mail server may have accepted them */
  const unknown: string[] = [];

  /** A port of this machine that containers reach. */
  const reachable = async (port: number): Promise<number> => {
    const proxy = await startTcpProxy(port, deployment.gateway);
    proxies.push(proxy);
    return proxy.port;
  };

  beforeAll(async () => {
    deployment = await startDeployment();
    receiver = await startReceiver();
    const { port } = new URL(receiver.url);
    const url = `http://${deployment.gateway}:${await reachable(Number(port))}/hook`;
    await deployment.api.listen({ ...receiver, url });
    recipient = await addUser();
    const users = await Promise.all(Array.from({ length: MAILBOXES }, () => addUser()));
    const first = users[0]!;
    const ports = { imapPort: await reachable(first.imapPort), smtpPort: await reachable(first.submissionPort) };
    mailboxes = await Promise.all(
      users.map(async (user) => {
        const intent = JSON.stringify(intentFor(user, ports)).replaceAll('127.0.0.1', deployment.gateway);
        const account = await deployment.api.post<Account>('/auth/intent', JSON.parse(intent));
        return { user, account, box: await openMailbox(user), appended: new Map<string, Buffer>() };
      }),
    );
  }, 1_800_000);

  afterAll(async () => {
    for (const { box } of mailboxes ?? []) box.client.close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await receiver?.close();
    await deployment?.close();
  }, 120_000);

  const allHealthy = async () =>
    (await deployment.containers()).every(({ status, health, exitCode }) =>
      status === 'running' ? health === 'healthy' || health === 'none' : exitCode === 0,
    );

  it('starts every service, each of which is healthy or has done its work', async () => {
    await waitFor(allHealthy, { timeoutMs: 180_000, everyMs: 1_000, what: 'all services to be healthy' });
    const containers = await deployment.containers();
    const services = containers.map(({ service }) => service).sort();
    expect(services).toEqual([
      ...['operator-login', 'postgres', 'prometheus', 's3', 'server', 'temporal', 'temporal-namespace'],
      ...['temporal-schema', 'temporal-ui', 'worker', 'worker'],
    ]);
    console.log(`up after ${deployment.upSeconds} s`);
  }, 200_000);

  it('has an image of at most 400 MB', async () => {
    const size = await imageSize('email-mailbox-api');
    console.log(`image: ${(size / 1e6).toFixed(0)} MB`);
    expect(size).toBeLessThanOrEqual(400e6);
  });

  it('shows the Temporal UI to the holder of the password alone', async () => {
    const { url, user, password } = deployment.login;
    const status = async (given?: string) => {
      const headers = given === undefined ? {} : { Authorization: `Basic ${btoa(`${user}:${given}`)}` };
      return (await fetch(url, { headers })).status;
    };
    expect([await status(), await status('wrong'), await status(password)]).toEqual([401, 401, 200]);
  });

  /** Appends mails to all mailboxes, and sends emails from them. */
  async function round(name: string): Promise<void> {
    const mails = Array.from({ length: MAILS_PER_ROUND }, async (_, index) => {
      const { box, appended } = mailboxes[index % MAILBOXES]!;
      const subject = `${name}, mail ${index}`;
      const file = { name: 'data.bin', type: 'application/octet-stream', content: randomBytes(3_000) };
      const raw = mailText({ subject, text: `The text of ${subject}.\r\n`, attachments: [file] });
      appended.set(subject, raw);
      await box.append('INBOX', raw);
    });
    const sends = Array.from({ length: SENDS_PER_ROUND }, (_, index) => send(`${name}, send ${index}`, index));
    await Promise.all([...mails, ...sends]);
  }

  /** Repeats the call under one key until it is accepted, or the answer is that the email may have been sent. */
  async function send(subject: string, index: number): Promise<void> {
    const { account } = mailboxes[index % MAILBOXES]!;
    const body = { to: [{ email: recipient.user }], subject, plain_text: subject };
    const headers = { 'Idempotency-Key': randomBytes(12).toString('hex') };
    // it may never end when the container of the API crashes
    const late = () => new Error('no response');
    let last = 'nothing';
    const isDone = async () => {
      const call = deployment.api.request('POST', `/${account.id}/emails/send`, body, headers);
      const response = await withDeadline(60_000, call, late).catch((error: unknown) => void (last = String(error)));
      if (response === undefined) return false;
      last = `${response.status} ${await response.text()}`;
      if (response.status === 502 && last.includes('may have been sent')) unknown.push(subject);
      else if (response.ok) sent.push(subject);
      else return false;
      return true;
    };
    await waitFor(isDone, { timeoutMs: 180_000, everyMs: 1_000, what: () => `${subject} to be sent: ${last}` });
  }

  it(
    'continues while its containers crash: they are started again, and every send ends',
    async () => {
      for (const [index, service] of VICTIMS.entries()) {
        const began = Date.now();
        await Promise.all([round(`round ${index}`), deployment.crash(service)]);
        console.log(`${service} crashed and was started again, round ${index}: ${Date.now() - began} ms`);
      }
      await waitFor(allHealthy, { timeoutMs: 180_000, everyMs: 1_000, what: 'all services to be healthy again' });
    },
    VICTIMS.length * 200_000,
  );

  it('lists every mail with its bytes, which it reads from S3', async () => {
    await Promise.all(mailboxes.map(expectAllListed));
    const keys = await deployment.stored();
    console.log(`${keys.length} objects in S3`);
    expect(keys.length).toBeGreaterThanOrEqual(VICTIMS.length * MAILS_PER_ROUND);
    expect(keys.every((key) => key.startsWith('mail/'))).toBe(true);
  }, 600_000);

  async function expectAllListed({ account, appended }: Connected): Promise<void> {
    let listed: Email[] = [];
    const found = () => new Map(listed.map((email) => [email.subject ?? '', email]));
    await waitFor(
      async () =>
        (listed = (await all(account.id)).filter(({ subject }) => appended.has(subject ?? ''))).length >= appended.size,
      { timeoutMs: 300_000, everyMs: 1_000, what: () => `${appended.size} mails, listed: ${listed.length}` },
    );
    expect([...found().keys()].sort()).toEqual([...appended.keys()].sort());
    expect(listed).toHaveLength(appended.size);
    for (const [subject, raw] of appended) {
      const { id, body_plain: text } = found().get(subject)!;
      expect(text?.trim()).toBe(`The text of ${subject}.`);
      const source = await deployment.api.request('GET', `/${account.id}/emails/${id}/source`);
      expect([source.status, Buffer.from(await source.arrayBuffer()).equals(raw)]).toEqual([200, true]);
    }
  }

  async function all(accountId: string): Promise<Email[]> {
    const emails: Email[] = [];
    let cursor: string | null = null;
    do {
      const query: Record<string, string> = { limit: '100', ...(cursor === null ? {} : { cursor }) };
      const page: Page<Email> = await deployment.api.emails(accountId, query);
      for (const email of page.data) emails.push(email);
      cursor = page.has_more ? page.cursor : null;
    } while (cursor !== null);
    return emails;
  }

  it('delivers every event, and again only where a response was lost', async () => {
    const waiting = () => deployment.column(`select status from deliveries where status <> 'delivered'`);
    await waitFor(async () => (await waiting()).length === 0, {
      ...{ timeoutMs: 600_000, everyMs: 2_000, what: 'all events to be delivered' },
    });
    const recorded = await deployment.column('select id from events');
    const accepted = receiver.accepted();
    const ids = new Set(accepted.map(({ event }) => event.id));
    const repeated = accepted.length - ids.size;
    console.log(`${recorded.length} events, each delivered; ${repeated} calls repeated`);
    expect([...ids].sort()).toEqual(recorded.sort());
    // a crash loses the responses of at most the ten calls that an endpoint gets at a time
    expect(repeated).toBeLessThanOrEqual(VICTIMS.length * 10);
    expect(receiver.faults).toEqual([]);
    const arrivals = new Map<string, Set<string>>();
    for (const { event } of receiver.accepted({ types: ['email.new'] })) {
      const { subject } = event.data.email as Email;
      arrivals.set(subject ?? '', (arrivals.get(subject ?? '') ?? new Set()).add(event.id));
    }
    const expected = [...mailboxes.flatMap(({ appended }) => [...appended.keys()]), ...sent];
    expect(expected.filter((subject) => arrivals.get(subject)?.size !== 1)).toEqual([]);
  }, 700_000);

  it('sends every email once, and those whose submission a crash cut off at most once', async () => {
    const box = await openMailbox(recipient);
    const subjects = async () => {
      const lock = await box.client.getMailboxLock('INBOX');
      const mails = await box.client.fetchAll('1:*', { envelope: true }).finally(() => lock.release());
      return mails.map(({ envelope }) => envelope?.subject ?? '');
    };
    let arrived: string[] = [];
    const isThere = async () => (arrived = await subjects()).filter((one) => sent.includes(one)).length >= sent.length;
    await waitFor(isThere, { timeoutMs: 60_000, everyMs: 500, what: () => `${sent.length} emails: ${arrived.length}` });
    await box.close();
    const others = arrived.filter((subject) => !sent.includes(subject));
    console.log(`${sent.length} sent, ${unknown.length} unknown, of which ${others.length} arrived`);
    expect(sent.length + unknown.length).toBe(VICTIMS.length * SENDS_PER_ROUND);
    expect(arrived.filter((subject) => sent.includes(subject)).sort()).toEqual([...sent].sort());
    expect(others.every((subject) => unknown.includes(subject))).toBe(true);
    expect(new Set(others).size).toBe(others.length);
  }, 90_000);

  it('is scraped by Prometheus, with all alert rules', async () => {
    const ask = async <T>(path: string): Promise<T> => {
      const response = await fetch(`${deployment.prometheus}/api/v1/${path}`);
      return ((await response.json()) as { data: T }).data;
    };
    const up = async () => {
      const { result } = await ask<{ result: { metric: { job: string }; value: [number, string] }[] }>(
        'query?query=up',
      );
      return result.map(({ metric, value }) => `${metric.job} ${value[1]}`);
    };
    let seen: string[] = [];
    await waitFor(async () => (seen = (await up()).sort()).join() === 'email-api 1,email-worker 1,email-worker 1', {
      ...{ timeoutMs: 60_000, everyMs: 1_000, what: () => `the targets to be up: ${seen.join(', ')}` },
    });
    const { groups } = await ask<{ groups: { rules: { name: string; health: string }[] }[] }>('rules');
    const rules = groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
  }, 90_000);

  it('is restored from its backup by the lines of the documents', async () => {
    const page = readFileSync(join(projectRoot(), 'docs', 'operating.md'), 'utf8');
    const [, section = ''] = page.split('### With Docker Compose\n');
    const [backup = [], restore = []] = [...section.matchAll(/^```\n(.*?)^```$/gms)].map(([, lines = '']) =>
      lines.trim().split('\n'),
    );
    expect([backup.length, restore.length]).toEqual([1, 6]);
    for (const line of [...backup, ...restore]) await deployment.shell(line);
    await Promise.all(
      mailboxes.map(({ account }) =>
        receiver.waitFor(({ event }) => event.type === 'account.restored' && event.account_id === account.id, {
          timeoutMs: 120_000,
        }),
      ),
    );
    await Promise.all(mailboxes.map(expectAllListed));
    expect((await deployment.containers()).filter(({ service }) => service === 'worker')).toHaveLength(2);
  }, 400_000);
});
