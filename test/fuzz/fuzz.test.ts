import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import type { TSchema } from 'typebox';
import { Check, Errors } from 'typebox/value';
import { EVENT_SCHEMAS } from '../../src/api/http/openapi-events.ts';
import { EVENT_TYPES, type EventEnvelope } from '../../src/contract/events.ts';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { run } from '../helpers/product/child.ts';
import type { Api } from '../helpers/product/api.ts';
import { type OwnLive, startLive } from '../helpers/product/live.ts';
import { isLong } from '../helpers/runner/long.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/*
 * schemathesis calls a running product with a connected account as its OpenAPI document says, and as it says not: no
 * response is 5xx, undocumented, or other than its schema; what is invalid is refused, and what is valid is not.
 */

const SCHEMATHESIS = '4.32.5';
const VENV = join(projectRoot(), '.cache', `schemathesis-${SCHEMATHESIS}`);
const PROGRAM = join(VENV, 'bin', 'st');
const HERE = import.meta.dirname;
/** Requests for each operation by chance, and for each sequence of operations; those that follow from the schema are more. */
const EXAMPLES = isLong() ? 300 : 3;
jest.setTimeout(isLong() ? 4 * 3_600_000 : 600_000);

const isInstalled = await install();
let live: OwnLive;
let dir: string;
let fuzzing: ChildProcess | undefined;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'fuzz-'));
  // more operations than an address may try with wrong keys in a minute
  if (isInstalled) live = await startLive({ MAX_WRONG_KEYS_PER_MINUTE: '10000' });
});
afterAll(async () => {
  fuzzing?.kill();
  if (isInstalled) await live.close();
  await rm(dir, { recursive: true, force: true });
});

/** Installs into its own folder; false where that is impossible (no Python, no network at the first time). */
async function install(): Promise<boolean> {
  if (existsSync(PROGRAM)) return true;
  const timeout = 240_000;
  const pip = ['install', '-q', '--disable-pip-version-check', `schemathesis==${SCHEMATHESIS}`];
  return run('python3', ['-m', 'venv', VENV], { timeout })
    .then(() => run(join(VENV, 'bin', 'pip'), pip, { timeout }))
    .then(
      () => true,
      () => false,
    );
}

/** Connects a mailbox and has an email in it; the ids, by the names of path parameters. */
async function furnish(api: Api): Promise<Record<string, string>> {
  const user = await addUser();
  const { id: account } = await api.connect(user);
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a').toString('base64') }];
  const to = [{ email: user.user }];
  await api.post(`/${account}/emails/send`, { to, subject: 'one', plain_text: 'text', attachments });
  const inbox = await api.folder(account, 'INBOX');
  const received = () => api.get<{ data: Stored[] }>(`/${account}/folders/${inbox.id}/emails`);
  await waitFor(async () => (await received()).data.length > 0, { timeoutMs: 60_000, what: 'the email to come' });
  const [email] = (await received()).data as [Stored];
  return {
    account_id: account,
    email_id: email.id,
    thread_id: email.thread_id,
    attachment_id: email.attachments[0]?.id as string,
    folder_id: inbox.id,
  };
}

interface Stored {
  id: string;
  thread_id: string;
  attachments: { id: string }[];
}

/** Runs schemathesis on the product; its exit code and what it printed. */
async function fuzz({ base, key }: Api, known: Record<string, string>, spared: string[]) {
  const options = ['--url', base, '--max-examples', String(EXAMPLES), '--continue-on-failure', '--no-color'];
  fuzzing = spawn(
    PROGRAM,
    ['--config-file', join(HERE, 'schemathesis.toml'), 'run', `${base}/openapi.json`, ...options],
    {
      // it keeps what it learns in its working directory
      cwd: dir,
      env: {
        PATH: process.env['PATH'],
        FUZZ_KEY: key,
        FUZZ_KNOWN: JSON.stringify(known),
        FUZZ_SPARED: JSON.stringify(spared),
        SCHEMATHESIS_HOOKS: join(HERE, 'hooks.py'),
        PYTHONDONTWRITEBYTECODE: '1',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let printed = '';
  for (const stream of [fuzzing.stdout, fuzzing.stderr]) stream?.on('data', (text) => (printed += String(text)));
  const [code] = (await once(fuzzing, 'close')) as [number | null];
  return { code, printed };
}

/** What is wrong with each event of the run that is other than the schema of its type says. */
async function undocumentedEvents(api: Api): Promise<unknown[]> {
  const wrong: unknown[] = [];
  let next: string | null = '';
  while (next !== null) {
    const page: { data: EventEnvelope[]; cursor: string | null } = await api.get(
      `/webhooks/events?limit=100${next && `&cursor=${next}`}`,
    );
    for (const event of page.data) {
      const schema = EVENT_SCHEMAS[EVENT_TYPES.indexOf(event.type)] as TSchema;
      if (!Check(schema, event)) wrong.push({ event, errors: Errors(schema, event) });
    }
    next = page.cursor;
  }
  return wrong;
}

(isInstalled ? it : it.skip)('answers every call as its OpenAPI document says', async () => {
  const { api } = live;
  const known = await furnish(api);
  const { data } = await api.get<{ data: { id: string }[] }>('/api-keys');
  const { code, printed } = await fuzz(api, known, [known['account_id'] as string, data[0]?.id as string]);
  const summary = printed.slice(printed.indexOf('= SUMMARY ='));
  process.stderr.write(`${summary}\n`);
  // what failed comes first, so that the list of failures names it; a run that broke may have neither part
  const found = printed.slice(Math.max(0, printed.search(/= (ERRORS|FAILURES) =/)));
  if (code !== 0) throw new Error(`schemathesis: ${found.slice(0, 20_000)}`);
  expect(summary).toMatch(/Tested: ([5-9]\d|\d{3})\b/);
  expect(await api.get(`/accounts/${known['account_id']}`)).toMatchObject({ status: 'running' });
  expect(await undocumentedEvents(api)).toEqual([]);
  expect(await live.product.logs()).not.toMatch(/"msg":"(request failed|could not store audit record)"/);
});
