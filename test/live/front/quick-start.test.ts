import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from '../../helpers/assert/wait.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { intentFor } from '../../helpers/product/api.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';
import { start, type Started } from '../../helpers/product/start.ts';

/** The lines of docs/quick-start.md do what it says, pasted one after the other. */

let dir: string;
let started: Started;
let user: MailUser;
let port: number;
let uiPort: number;
let printed: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'quick-start-'));
  user = await addUser();
  [port, uiPort] = [await freePort(), await freePort()];
  started = start(dir, { PORT: String(port), TEMPORAL_UI_PORT: String(uiPort) }, 'scripts/start.mjs');
  await started.ready(240_000);
  printed = await paste(await linesOfPage());
}, 300_000);

afterAll(async () => {
  started?.child.kill('SIGTERM');
  await started?.ended();
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}, 30_000);

/** The lines with this run's ports, login and sent mail in the place of the reader's. */
async function linesOfPage(): Promise<string> {
  const page = await readFile(join(projectRoot(), 'docs', 'quick-start.md'), 'utf8');
  const blocks = [...page.matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1] ?? '');
  expect(blocks).toHaveLength(5);
  const receiverPort = await freePort();
  const send =
    `curl -s smtp://127.0.0.1:${mailServers().postfix.smtpPort} --mail-from ada@elsewhere.test --mail-rcpt ${user.user}` +
    ` -H 'From: Ada <ada@elsewhere.test>' -H 'To: ${user.user}' -H 'Subject: Hello' -F '=Good morning' -F 'file=@README.md;encoder=base64'` +
    ' >/dev/null\nuntil api "$API/webhooks/conversations?account_id=$ACCOUNT" | grep -q delivered; do sleep 0.2; done\n';
  const [settings = '', endpoint = '', connect = '', ...after] = blocks;
  return [settings, endpoint, connect, send, ...after, '\nkill %1\n']
    .join('\n')
    .replaceAll('http://127.0.0.1:3000', `http://127.0.0.1:${port}`)
    .replaceAll('.data/', `${dir}/`)
    .replaceAll('127.0.0.1:4000', `127.0.0.1:${receiverPort}`)
    .replace(/(receiver\.mjs "[^\n]*") &/, `$1 ${receiverPort} & sleep 1`)
    .replace(/-d '\{"provider":"imap"[^\n]*?\}'/, `-d '${JSON.stringify(intentFor(user))}'`);
}

function paste(lines: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('bash', ['-mc', lines], { cwd: projectRoot(), timeout: 60_000 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${error.message}\n${stdout}\n${stderr}`));
      else resolve(stdout);
    });
  });
}

test('the webhook comes signed, and the email reads the same', async () => {
  expect(printed).toMatch(/"object":"WebhookEndpoint"/);
  expect(printed).toMatch(/"object":"Account"/);
  expect(printed).toMatch(/email\.new sha256=[0-9a-f]{64} \(genuine\)/);
  expect(printed).not.toContain('FORGED');
  const line = (pattern: RegExp) => printed.split('\n').find((one) => pattern.test(one)) ?? '{}';
  const event = JSON.parse(line(/^\{"object":"Event"/)) as { data: { email: unknown } };
  // curl prints a response without a final line end: the count of bytes follows directly
  const [, email = '{}', bytes] = /^(\{"object":"Email".*\})(\d+)$/m.exec(printed) ?? [];
  expect(JSON.parse(email)).toEqual(event.data.email);
  expect(Number(bytes)).toBe((await readFile(join(projectRoot(), 'README.md'))).length);
});

test('the delivery log and the Temporal UI show its history', async () => {
  expect(printed).toMatch(/"object":"WebhookConversations".*"status":"delivered"/);
  const account = /acc_[0-9a-z]{26}/.exec(printed)?.[0];
  const query = new URLSearchParams({ query: `MailAccount="${account}"` });
  const url = `http://127.0.0.1:${uiPort}/api/v1/namespaces/default/workflows?${query.toString()}`;
  const types = async () => {
    const { executions = [] } = (await (await fetch(url)).json()) as { executions?: { type: { name: string } }[] };
    return executions.map(({ type }) => type.name);
  };
  // its list follows a moment later
  await waitFor(async () => (await types()).includes('account'), { what: 'the run of the account' });
});
