import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { EVENT_TYPES } from '../../../src/contract/events.ts';
import { sampleData } from '../../../src/contract/sample-events.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { newId } from '../../../src/new-id.ts';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { run } from '../../helpers/product/child.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/*
 * Public generators make clients of /openapi.json without a warning, and events are a union that `type` tells apart:
 * openapi-typescript with openapi-fetch, and openapi-python-client.
 */

const GENERATOR = '0.29.1';
/** Below the packages of this project, which one of the clients imports. */
const CACHE = join(projectRoot(), '.cache');
const VENV = join(CACHE, `openapi-python-client-${GENERATOR}`);
const FROM_PYTHON = join(import.meta.dirname, 'generated-clients.py');
const FROM_TYPESCRIPT = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.js';

type Schemas = components['schemas'];
type AnyEvent = Schemas['AnyEvent'];
const isComplete: Exclude<Schemas['EventType'], AnyEvent['type']> extends never ? true : false = true;

function about(event: AnyEvent): string {
  // @ts-expect-error only some events have it
  event.data.folder;
  switch (event.type) {
    case 'email.new':
      return event.data.email.id;
    case 'email.folder.create':
      return event.data.folder.id;
    case 'import.failed':
      return event.data.import.id;
    default:
      return event.type;
  }
}

const [baseUrl, key = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { 'X-API-KEY': key } });
const { data, error } = await client.GET('/api/v1/webhooks/events', { params: { query: { limit: 100 } } });
if (error) throw new Error(error.detail);
console.log(JSON.stringify(data.data.map(about)), isComplete);
`;

const why = await install();
let api: ApiUnderTest;
let dir: string;
let url: string;

beforeAll(async () => {
  await mkdir(CACHE, { recursive: true });
  dir = await mkdtemp(join(CACHE, 'clients-'));
  api = await apiUnderTest();
  url = await api.app.listen({ host: '127.0.0.1', port: await freePort() });
  await writeFile(join(dir, 'openapi.json'), (await api.app.inject({ url: '/openapi.json' })).body);
  const account = await storeAccount(api.database);
  const createdAt = new Date();
  const events = EVENT_TYPES.map((type) => {
    const data = sampleData(type, account, createdAt) as Record<string, unknown>;
    return { type, objectId: newId('email'), data, createdAt };
  });
  await api.database.db.transaction((tx) => recordEvents(tx, account, events));
  const listed = () => api.get<{ data: object[] }>('/webhooks/events?limit=100');
  await waitFor(async () => (await listed()).data.length === EVENT_TYPES.length, {
    what: 'the feed to have all events',
  });
}, 60_000);
afterAll(async () => {
  await api.close();
  await rm(dir, { recursive: true, force: true });
});

/** Installs the generator and its formatter into their own folder; undefined, or why that is impossible. */
async function install(): Promise<string | undefined> {
  if (existsSync(join(VENV, 'bin', 'ruff'))) return undefined;
  const pip = ['install', '-q', '--disable-pip-version-check', `openapi-python-client==${GENERATOR}`, 'ruff'];
  const timeout = 120_000;
  return run('python3', ['-m', 'venv', VENV], { timeout })
    .then(() => run(join(VENV, 'bin', 'pip'), pip, { timeout }))
    .then(
      () => undefined,
      (error: Error) => `openapi-python-client cannot be installed: ${error.message.split('\n')[0]}`,
    );
}

it('TypeScript: each event is known by its type', async () => {
  const [generator, tsc] = ['openapi-typescript/bin/cli.js', 'typescript/bin/tsc'].map((path) =>
    join(projectRoot(), 'node_modules', path),
  ) as [string, string];
  const options = [
    '--ignoreConfig',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    'node',
  ];
  const node = (...args: string[]) => run(process.execPath, args, { cwd: dir });
  const made = await node(generator, 'openapi.json', '-o', 'schema.ts');
  expect(`${made.stdout}${made.stderr}`).not.toMatch(/warn|error/i);
  await writeFile(join(dir, 'client.ts'), FROM_TYPESCRIPT);
  await node(tsc, ...options, 'client.ts');
  const { stdout } = await node('client.js', url, api.key);
  expect(stdout).toMatch(/^\["email_\w+",.*"fld_\w+".*"imp_\w+".*\] true\n$/);
}, 120_000);

const python = why === undefined ? it : it.skip;
python(
  `Python: no warning, and each event of the feed is of its class${why === undefined ? '' : ` (${why})`}`,
  async () => {
    const path = `${join(VENV, 'bin')}:${process.env['PATH']}`;
    const generate = [
      'generate',
      '--path',
      join(dir, 'openapi.json'),
      '--output-path',
      join(dir, 'python'),
      '--meta',
      'none',
    ];
    const made = await run(join(VENV, 'bin', 'openapi-python-client'), [...generate, '--fail-on-warning'], {
      env: { ...process.env, PATH: path },
    });
    expect(`${made.stdout}${made.stderr}`).not.toMatch(/warn|error/i);
    const { stdout } = await run(join(VENV, 'bin', 'python'), [FROM_PYTHON, dir, url, api.key]);
    const nameOf = (type: string) => type.replace(/(?:^|[._])([a-z])/g, (_, first: string) => first.toUpperCase());
    expect(JSON.parse(stdout)).toEqual(EVENT_TYPES.map((type) => [type, `${nameOf(type)}Event`, true]));
  },
  120_000,
);
