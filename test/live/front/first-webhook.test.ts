import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { intentFor } from '../../helpers/product/api.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** The five commands of README "First webhook", pasted into a shell, end in the signed events of the mail that they send. */

let live: OwnLive;
let dir: string;
let user: MailUser;

beforeAll(async () => {
  [live, user] = await Promise.all([startLive(), addUser()]);
  dir = await mkdtemp(join(tmpdir(), 'first-webhook-'));
  await writeFile(join(dir, 'bootstrap-api-key'), live.api.key);
}, 180_000);

afterAll(async () => {
  await live?.close();
  await rm(dir, { recursive: true, force: true });
}, 60_000);

/** The commands, with this product and mailbox in the place of the reader's. They end when both copies were reported. */
async function commands(): Promise<string> {
  const readme = await readFile(join(projectRoot(), 'README.md'), 'utf8');
  const block = /^## First webhook$.*?^```sh\n(.*?)^```$/ms.exec(readme)?.[1] ?? '';
  expect(block.match(/^\S/gm)).toHaveLength(5);
  const port = await freePort();
  const output = join(dir, 'received');
  const listening = `${port} >${output} & until grep -qs waiting ${output}; do sleep 0.1; done`;
  const pasted = block
    .replaceAll('http://127.0.0.1:3000', live.api.base)
    .replaceAll('.data/', `${dir}/`)
    .replaceAll('127.0.0.1:4000', `127.0.0.1:${port}`)
    .replace(/(receiver\.mjs "[^\n]*") &/, `$1 ${listening}`)
    .replace(/'\{"provider":"imap"[^']*'/, `'${JSON.stringify(intentFor(user))}'`)
    .replaceAll('you@gmail.com', user.user);
  return `${pasted}\nuntil [ "$(grep -c '"email.new"' ${output})" = 2 ]; do sleep 0.1; done; kill %1; cat ${output}`;
}

test('connects a mailbox, sends it a mail, and prints its signed events', async () => {
  const paste = promisify(execFile)('bash', ['-mc', await commands()], { cwd: projectRoot(), timeout: 60_000 });
  const { stdout, stderr } = await paste;
  expect(stderr).toContain('"object":"Account"');
  expect(stdout).toContain('"object":"EmailSent"');
  expect(stdout.match(/^email\.new sha256=[0-9a-f]{64} \(genuine\)$/gm)).toHaveLength(2);
  const events = stdout.match(/^\{"object":"Event".*$/gm)?.map((line) => JSON.parse(line) as EventEnvelope) ?? [];
  const emails = events.map(({ data }) => (data as { email: { subject: string; origin: string } }).email);
  // the copy in Sent and the email in the inbox are filed at the same time
  expect(emails.map(({ origin, subject }) => `${origin}: ${subject}`).toSorted()).toEqual([
    'api: Hello',
    'external: Hello',
  ]);
}, 90_000);
