import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { circles, type Import, importsOf, sourceFiles } from './helpers/assert/imports.ts';

/*
 * The import table of AGENTS.md. A room is a folder of src with the file of the same name, or one file right in src.
 * Changing a line here is a decision about the house: change it there too.
 */
const LEAVES = [
  'runtime',
  'new-id',
  'duration',
  'async',
  'mail-wire/mail-error',
  'mail-wire/server-text',
  'mail-wire/addresses',
  'outage',
];
const TABLE: Record<string, Room> = {
  contract: { ours: [], packages: ['typebox'] },
  'new-id': { ours: ['contract'], packages: ['ulid'] },
  duration: { ours: [], packages: [] },
  async: { ours: ['runtime/logger'], packages: [] },
  outage: { ours: [], packages: [] },
  runtime: {
    ours: [],
    packages: [
      ...['pino', 'prom-client', '@opentelemetry/api', '@opentelemetry/exporter-trace-otlp-proto'],
      ...['@opentelemetry/resources', '@opentelemetry/sdk-trace-node', '@temporalio/interceptors-opentelemetry'],
      ...['@temporalio/client', '@temporalio/worker', 'fastify'],
    ],
  },
  config: { ours: ['duration'], packages: ['ipaddr.js'] },
  security: { ours: ['async', 'db', 'outage'], types: ['storage'], packages: ['ipaddr.js'] },
  'mail-wire': { ours: ['async', 'contract'], packages: [] },
  storage: { ours: LEAVES, packages: ['@aws-sdk/client-s3', '@aws-sdk/lib-storage'] },
  imap: { ours: ['contract', 'security/outbound', 'mail-wire', 'mime/message-ids', ...LEAVES], packages: ['imapflow'] },
  smtp: { ours: ['contract', 'security/outbound', 'mail-wire', ...LEAVES], packages: ['nodemailer'] },
  oauth: { ours: ['contract', 'db', 'security', ...LEAVES], packages: ['oauth4webapi'] },
  discovery: { ours: ['contract', 'security/outbound', ...LEAVES], packages: ['htmlparser2'] },
  mime: {
    ours: ['contract', ...LEAVES],
    packages: [
      ...['chardet', 'html-to-text', 'htmlparser2', 'ical.js', 'iconv-lite', 'libmime'],
      ...['mailparser', 'nodemailer', 'piscina', 'tldts', 'windows-iana'],
    ],
  },
  db: { ours: ['contract', ...LEAVES], packages: ['drizzle-orm', 'pg', 'pg-protocol'] },
  outgoing: { ours: ['contract', 'db', ...LEAVES], types: ['storage'], packages: ['drizzle-orm'] },
  mailbox: {
    ours: [...['contract', 'db', 'imap', 'mime', 'oauth', 'storage', 'security'], ...['outgoing', ...LEAVES]],
    packages: ['drizzle-orm'],
  },
  sending: {
    ours: ['contract', 'db', 'imap', 'smtp', 'mime', 'mailbox', 'outgoing', 'storage', 'security', ...LEAVES],
    packages: ['drizzle-orm'],
  },
  alerts: {
    ours: ['contract', 'db', 'mime', 'security', 'smtp', 'webhooks', ...LEAVES],
    packages: ['drizzle-orm'],
  },
  webhooks: {
    ours: ['contract', 'db', 'security', 'workflows/names', ...LEAVES],
    types: ['workflows'],
    packages: ['drizzle-orm', '@temporalio/client', '@temporalio/common'],
  },
  activities: {
    ours: [
      ...[
        'contract',
        'db',
        'imap',
        'smtp',
        'mime',
        'discovery',
        'mailbox',
        'oauth',
        'outgoing',
        'sending',
        'webhooks',
        'maintenance/retention',
        'maintenance/mail-retention',
      ],
      ...['storage', 'security', 'workflows/names', ...LEAVES],
    ],
    packages: ['@temporalio/activity', '@temporalio/client', '@temporalio/common', 'drizzle-orm'],
  },
  maintenance: {
    ours: [
      ...['contract', 'db', 'alerts', 'mailbox', 'outgoing', 'webhooks', 'security', 'activities', 'workflows/names'],
      ...LEAVES,
    ],
    types: ['storage'],
    packages: ['@temporalio/client', 'drizzle-orm'],
  },
  workflows: { ours: [], types: ['activities', 'contract'], packages: ['@temporalio/workflow', '@temporalio/common'] },
  temporal: {
    ours: ['contract', 'workflows/names', ...LEAVES],
    types: ['config', 'workflows'],
    packages: ['@temporalio/client', '@temporalio/common', '@temporalio/worker', 'fastify'],
  },
  api: {
    ours: [...['contract', 'db', 'oauth', 'security', 'storage', 'workflows/names'], ...['outgoing', ...LEAVES]],
    types: ['workflows'],
    packages: [
      ...['fastify', '@fastify/rate-limit', '@fastify/static', '@fastify/swagger'],
      ...['@fastify/type-provider-typebox', 'typebox'],
      ...['@temporalio/client', 'pg', 'prom-client', 'drizzle-orm'],
    ],
  },
  embedded: { ours: ['config', 'db', 'temporal', 'workflows/names', ...LEAVES], packages: ['pg', 'tar-stream'] },
};

/** The entry files construct everything; nothing imports them. */
const ENTRIES = ['start.ts', 'server.ts', 'worker.ts', 'rotate-key.ts', 'backup.ts', 'restore.ts', 'drizzle.config.ts'];
/** What they construct with: it imports everything, and only they import it. */
const WIRING = 'wiring';

interface Room {
  /** rooms that it may import; one file of a room as `room/file` */
  ours: string[];
  /** rooms of which it may import types besides */
  types?: string[];
  /** packages; Node's own modules are open to all but `contract` and `workflows` */
  packages: string[];
}

const ROOT = join(import.meta.dirname, '..');
const imports = importsOf(ROOT);
const inSrc = imports.filter(({ from }) => from.startsWith('src/'));

const roomOf = (path: string) => /^src\/([^/.]+(?:-[^/.]+)*)/.exec(path)?.[1] ?? path;
const reported = ({ from, to }: Import) => `${from} imports ${to}`;

function isAllowed({ from, to, isOurs, isTypeOnly }: Import): boolean {
  if (roomOf(from) === WIRING) return true;
  const room = TABLE[roomOf(from)];
  if (room === undefined) return false;
  if (!isOurs) return isPackageAllowed(roomOf(from), room, to);
  const target = roomOf(to);
  const file = to.replace(/^src\//, '').replace(/\.ts$/, '');
  if (target === roomOf(from)) return true;
  return room.ours.includes(target) || room.ours.includes(file) || (isTypeOnly && (room.types ?? []).includes(target));
}

function isPackageAllowed(name: string, room: Room, to: string): boolean {
  if (to.startsWith('node:')) return name !== 'contract' && name !== 'workflows';
  return room.packages.some((allowed) => to === allowed || to.startsWith(`${allowed}/`));
}

/** Paths of the files in these folders, but for data of the tests. */
function everyFile(folders: string[]): string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
      .filter((path) => !/\/(?:migrations|fixtures|histories|node_modules|__pycache__)\//.test(path)),
  );
}

/** The files and packages that a process loads when it starts from this file. */
function loadedBy(entry: string): string[] {
  const loaded = new Set([entry]);
  for (const file of loaded) {
    for (const { from, to, isTypeOnly } of imports) if (from === file && !isTypeOnly) loaded.add(to);
  }
  return [...loaded];
}

describe('the house', () => {
  it('has a line in the table for every room', () => {
    const rooms = new Set(
      sourceFiles(ROOT)
        .filter((path) => path.startsWith('src/'))
        .map(roomOf),
    );
    expect([...rooms].filter((room) => room !== WIRING && TABLE[room] === undefined)).toEqual([]);
  });

  it('has no folder of more than 25 files, and no more than four loose ones in src', () => {
    const folders = new Map<string, number>();
    for (const path of everyFile(['src', 'test', 'bench', 'scripts', 'docs', 'web/src'])) {
      folders.set(dirname(path), (folders.get(dirname(path)) ?? 0) + 1);
    }
    expect([...folders].filter(([, count]) => count > 25)).toEqual([]);
    expect(folders.get('src')).toBeLessThanOrEqual(4);
  });

  it('imports only what the table allows', () => {
    expect(inSrc.filter((found) => !isAllowed(found)).map(reported)).toEqual([]);
  });

  it('imports no entry file', () => {
    expect(imports.filter(({ to, isOurs }) => isOurs && ENTRIES.includes(to)).map(reported)).toEqual([]);
    const unknown = sourceFiles(ROOT).filter((path) => !path.startsWith('src/') && !ENTRIES.includes(path));
    expect(unknown).toEqual([]);
  });

  it('has no import circles', () => {
    expect(circles(imports).map((circle) => circle.join(' → '))).toEqual([]);
  });

  it('keeps the embedded servers to the start', () => {
    const users = inSrc.filter(({ from, to }) => roomOf(to) === 'embedded' && roomOf(from) !== 'embedded');
    expect(users.map(reported)).toEqual([]);
    expect(
      imports
        .filter(
          ({ from, to }) => from !== 'start.ts' && /^(server|worker)\.ts$/.test(from) && roomOf(to) === 'embedded',
        )
        .map(reported),
    ).toEqual([]);
  });

  it("loads Temporal's worker and its native library in no process of the API", () => {
    expect(loadedBy('worker.ts')).toContain('@temporalio/worker');
    expect(loadedBy('server.ts')).not.toContain('@temporalio/worker');
  });

  it('has a reader of TNEF that could be a package: it imports iconv-lite alone', () => {
    const tnef = imports.filter(({ from }) => from.startsWith('src/mime/tnef/'));
    const foreign = tnef.filter(({ to }) => !/^(src\/mime\/tnef\/|iconv-lite$|node:)/.test(to));
    expect(tnef).not.toEqual([]);
    expect(foreign.map(reported)).toEqual([]);
  });

  it('gets its environment from the entry files: nothing in src reads it', () => {
    const readers = sourceFiles(ROOT).filter(
      (path) =>
        path.startsWith('src/') && /process\s*\.\s*env\b|process\[.env.\]/.test(readFileSync(join(ROOT, path), 'utf8')),
    );
    expect(readers).toEqual([]);
  });
});

/*
 * Each state machine has one file that writes its columns. A statement of Drizzle ends at its semicolon, one in SQL at its
 * backtick.
 */
const DELIVERY_STATES = ['delivery-state', 'pending'].map((name) => `src/webhooks/log/${name}.ts`);

describe('the state of', () => {
  const statements = sourceFiles(ROOT)
    .filter((path) => path.startsWith('src/'))
    .flatMap((path) => {
      const source = readFileSync(join(ROOT, path), 'utf8');
      const built = [...source.matchAll(/(?:\.(?:insert|update)\(|\binsertRows\(\s*\w+,)\s*(\w+)\b[^;]*/g)];
      const written = [...source.matchAll(/\b(?:insert into|update)\s+"?([a-z_]+)"?\b(?=\s)[^`]*/gi)];
      return [...built, ...written].map(([text, table]) => ({ path, text, table }));
    });

  it.each([
    ['sends', ['src/outgoing/send-state.ts'], /./],
    ['drafts', ['src/outgoing/draft-state.ts'], /./],
    // the outbox inserts deliveries with their event; `pending.ts` is SQL of the two state files
    ['deliveries', [...DELIVERY_STATES, 'src/webhooks/log/replay-state.ts', 'src/db/outbox.ts'], /./],
    ['pending_deliveries', [...DELIVERY_STATES, 'src/webhooks/dispatch/claim.ts'], /./],
    ['pendingDeliveries', ['src/db/outbox.ts'], /./],
    ['replays', ['src/webhooks/log/replay-state.ts', 'src/db/queries/replays.ts'], /./],
    ['accounts', ['src/db/queries/accounts.ts'], /\bstatus\b|\bstatusDetail\b/],
  ])('%s is written in one file', (name, owners, column) => {
    const writers = statements.filter(({ table, text }) => table === name && column.test(text));
    expect([...new Set(writers.map(({ path }) => path))].filter((path) => !owners.includes(path))).toEqual([]);
    expect(writers.map(({ path }) => path)).toEqual(expect.arrayContaining(owners));
  });
});
