import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import type { Account, MailboxVerification } from '../../src/contract/account.ts';
import type { Email, EmailBatch } from '../../src/contract/email.ts';
import type { EventType } from '../../src/contract/events.ts';
import type { Import } from '../../src/contract/runs/import.ts';
import { runningServers } from '../../src/embedded/data-dir.ts';
import { hasSearchAttributes } from '../../src/temporal/search-attributes.ts';
import { SEARCH_ATTRIBUTES, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { emailOf, type Receiver, startReceiver } from '../helpers/fakes/receiver.ts';
import type { Api } from '../helpers/product/api.ts';
import { addUser, doveadm, type MailUser } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { type OAuthServers, startOAuthServers } from '../helpers/servers/oauth-servers.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { restoreDatabase } from './database.ts';
import { beginInstallation, type Installation } from './installation.ts';
import { type Recorded, readRecorded, recordedStores, type Sent, unpackStore } from './store.ts';

/** This version on the store of each release, which was killed with work of every kind under way. */

const cases = (await recordedStores()).flatMap((file) =>
  ['with its Temporal store', 'without its Temporal store'].map(
    (how) => [basename(file, '.tar.xz'), how, file] as const,
  ),
);
const AWAY = ['while away 1', 'while away 2'];

describe.each(cases)('the store of %s, %s', (_, how, file) => {
  let dir: string;
  let servers: OAuthServers;
  let database: TestDatabase;
  let working: Receiver;
  let failing: Receiver;
  let installation: Installation;
  let api: Api;
  let recorded: Recorded;
  let connection: Connection;
  const users = new Map<string, MailUser>();

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'release-'));
    await chmod(dir, 0o711);
    const dataDir = join(dir, 'data');
    await mkdir(dataDir);
    recorded = await readRecorded(file);
    [servers, database] = [await startOAuthServers(), await testDatabase({ max: 2, empty: true })];
    [working, failing] = [await startReceiver(), await startReceiver()];
    for (const one of [working, failing]) one.secrets = new Map(Object.entries(recorded.secrets));
    const portOf = (url: string) => Number(new URL(url).port);
    const rows = await unpackStore(
      file,
      { dataDir, mailDir: servers.dovecot.mailDir },
      {
        imap: servers.dovecot.imapPort,
        smtp: servers.postfix.submissionPort,
        auth: portOf(servers.auth.issuer),
        working: portOf(working.url),
        failing: portOf(failing.url),
      },
    );
    await restoreDatabase(database.url, rows);
    if (how.startsWith('without')) {
      const names = (await readdir(dataDir)).filter((name) => name.startsWith('temporal.db'));
      for (const name of names) await rm(join(dataDir, name));
    }
    for (const one of recorded.users) {
      const user = await addUser({ ...one, dovecot: servers.dovecot });
      users.set(user.user.split('@')[0] ?? '', user);
    }
    servers.auth.appMailbox = userOf('oauth').user;
    for (const name of ['password', 'oauth']) {
      const box = await openMailbox(userOf(name));
      for (const subject of AWAY) await box.append('INBOX', { subject });
      await box.close();
    }
    await expunge('password', 'mail 2');
    installation = await beginInstallation(dataDir, database.url);
    api = installation.api;
    connection = await Connection.connect({ address: address() });
  }, 240_000);

  afterAll(async () => {
    await connection?.close();
    await installation?.kill();
    await Promise.all([working?.close(), failing?.close()]);
    await servers?.stop();
    await database?.drop();
    await rm(dir, { recursive: true, force: true });
  }, 60_000);

  function userOf(name: string): MailUser {
    const user = users.get(name);
    if (!user) throw new Error(`no user ${name}`);
    return user;
  }
  const expunge = (name: string, subject: string) =>
    doveadm(userOf(name), 'expunge', '-u', userOf(name).user, 'mailbox', 'INBOX', 'subject', subject);
  const found = async (name: string, ...query: string[]) =>
    (await doveadm(userOf(name), 'search', '-u', userOf(name).user, ...query)).split('\n').filter(Boolean).length;
  const eventsOf = ({ id: account }: { id: string }, ...types: EventType[]) => working.accepted({ account, types });
  const accounts = () => [recorded.accounts.password, recorded.accounts.oauth];
  const send = async ({ id }: Account, { body }: Sent) =>
    api.request('POST', `/${id}/emails/send`, body, { 'Idempotency-Key': body.subject });
  const stays = ({ subject }: Email) => subject !== 'mail 2';

  it('has every email with its source and attachments', async () => {
    for (const email of recorded.emails.filter(stays)) {
      // the batch stars them
      const { is_starred: _starred, ...kept } = email;
      expect(await api.email(email.account_id, email.id)).toMatchObject(kept);
    }
    for (const [path, sha256] of Object.entries(recorded.files)) {
      if (!recorded.emails.filter(stays).some(({ id }) => path.includes(id))) continue;
      const bytes = Buffer.from(await (await api.request('GET', path)).arrayBuffer());
      expect([path, createHash('sha256').update(bytes).digest('hex')]).toEqual([path, sha256]);
    }
  });

  it('follows the mailboxes from where they were', async () => {
    for (const account of accounts()) {
      const isNew = () => eventsOf(account, 'email.new').map((call) => emailOf(call).subject);
      await waitFor(() => isNew().length >= AWAY.length, {
        timeoutMs: 60_000,
        what: () => `new mail; came: ${isNew()}`,
      });
    }
    await waitFor(() => eventsOf(accounts()[0]!, 'email.delete').length === 1, { timeoutMs: 60_000 });
  }, 180_000);

  it('delivers what was pending, once', async () => {
    const came = () => failing.accepted().map(({ event }) => event.id);
    await waitFor(() => recorded.pending.every((id) => came().includes(id)), {
      timeoutMs: 120_000,
      what: () => `${recorded.pending.length} events; came: ${came().length}`,
    });
    expect(
      came()
        .filter((id) => recorded.pending.includes(id))
        .sort(),
    ).toEqual([...recorded.pending].sort());
  }, 150_000);

  it('imports the rest, after a call what was paused', async () => {
    const { paused, running } = recorded.imports;
    const path = ({ account_id: account, id }: Import) => `/accounts/${account}/imports/${id}`;
    expect(await api.get(path(paused))).toMatchObject({ status: 'paused' });
    await api.post(`${path(paused)}/continue`);
    for (const one of [running, paused]) {
      let now = one;
      await waitFor(async () => (now = await api.get<Import>(path(one))).status === 'completed', {
        timeoutMs: 120_000,
        what: () => JSON.stringify(now),
      });
      expect(now).toMatchObject({ imported: recorded.messages, progress: { messages_left: 0 } });
    }
  }, 300_000);

  it('changes the emails of the batch', async () => {
    const { password } = recorded.accounts;
    const now = () => api.get<EmailBatch>(`/${password.id}/batches/${recorded.batch.id}`);
    await waitFor(async () => (await now()).status === 'completed', { timeoutMs: 90_000, what: 'the batch' });
    // the mail that was expunged is one of them
    const { changed, failed, total } = await now();
    expect([changed, failed]).toEqual([total - 1, 1]);
    expect(await found('password', 'mailbox', '*', 'flagged')).toBe(changed);
  }, 120_000);

  it('sends each email once, and files its copy', async () => {
    const { accounts: all, sends, draft } = recorded;
    for (const sent of Object.values(sends)) expect((await send(all.password, sent)).status).toBe(200);
    await api.post(`/${all.password.id}/drafts/${draft.id}/send`);
    for (const subject of [...Object.values(sends).map(({ body }) => body.subject), draft.subject]) {
      const copies = () => found('password', 'mailbox', 'Sent', 'subject', subject);
      await waitFor(async () => (await copies()) > 0, { timeoutMs: 60_000, what: `the copy of ${subject}` });
      const received = () => found('recipient', 'subject', subject);
      await waitFor(async () => (await received()) > 0, { timeoutMs: 30_000, what: `${subject} to arrive` });
      expect([subject, await copies(), await received()]).toEqual([subject, 1, 1]);
    }
  }, 180_000);

  it('is equal to the mailboxes', async () => {
    const ids = [...accounts().map(({ id }) => id), ...Object.values(recorded.imports).map((one) => one.account_id)];
    for (const id of ids) {
      const verified = () => api.post<MailboxVerification>(`/accounts/${id}/verify`);
      let last = await verified();
      await waitFor(async () => last.status === 'completed' || (last = await verified()).status === 'completed', {
        timeoutMs: 60_000,
      });
      expect(last).toMatchObject({ differences: 0, left: 0 });
    }
  }, 180_000);

  it('reports nothing twice, and numbers events without a gap', async () => {
    const again = working.accepted().filter(({ event }) => recorded.reported.includes(event.id));
    expect(again.map(({ event }) => event.type)).toEqual([]);
    const calls = working.accepted().map(({ event }) => event.id);
    expect(calls.length).toBe(new Set(calls).size);
    const { rows } = await database.database.pool.query(`
      select account_id from events where not test group by account_id having count(*) <> max(sequence)
      union all select object_id from events where type = 'email.new' group by object_id having count(*) > 1`);
    expect(rows).toEqual([]);
    expect([...working.faults, ...failing.faults]).toEqual([]);
  });

  const address = () => runningServers(join(dir, 'data'))?.['TEMPORAL_ADDRESS'] ?? '';
  /** The runs that Temporal lists as open; one that ended a moment ago may be among them. Their memos are encrypted. */
  async function open(query = ''): Promise<{ workflowId: string; runId: string; type: string }[]> {
    const { executions } = await connection.workflowService.listWorkflowExecutions({
      namespace: 'default',
      query: `ExecutionStatus = 'Running'${query}`,
    });
    return executions.map(({ execution, type }) => ({
      workflowId: execution?.workflowId ?? '',
      runId: execution?.runId ?? '',
      type: type?.name ?? '',
    }));
  }

  it('has the search attributes, by which the workflows of an account are found', async () => {
    expect(await hasSearchAttributes(address(), ['default'])).toBe(true);
    const found = await open(` and ${SEARCH_ATTRIBUTES.mailAccount} = '${recorded.accounts.password.id}'`);
    expect(found.map(({ type }) => type)).toContain(WORKFLOWS.account);
  });

  it('replays every workflow that was open', async () => {
    const { workflow } = new Client({ connection });
    const executions = await open();
    const followed = accounts().length + Object.keys(recorded.imports).length;
    expect(executions.filter(({ type }) => type === WORKFLOWS.account)).toHaveLength(followed);
    for (const { workflowId, runId, type } of executions) {
      const { events } = await workflow.getHandle(workflowId, runId).fetchHistory();
      const failed = events?.flatMap((event) => event.workflowTaskFailedEventAttributes?.failure?.message ?? []);
      expect([type, failed]).toEqual([type, []]);
    }
  });
});
