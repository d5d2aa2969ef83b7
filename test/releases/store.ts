import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Account } from '../../src/contract/account.ts';
import type { Email, EmailBatch } from '../../src/contract/email.ts';
import type { Import } from '../../src/contract/runs/import.ts';
import { run } from '../helpers/product/child.ts';
import type { StoredDatabase } from './database.ts';

/*
 * What a release leaves when it is killed, as one file in this folder: the rows of its database, the files of `npm start` (raw mail,
 * keys, Temporal's store) and the mailboxes of the Dovecot. `record.test.ts` makes it, `upgrade.test.ts` starts
 * later versions on it.
 */

/** What a test has to know about such a store; each field keeps its meaning, since recorded files stay as they are. */
export interface Recorded {
  version: string;
  /** ports that rows of the database name */
  ports: Ports;
  users: { user: string; password: string }[];
  /** secrets of the endpoints, by their ids */
  secrets: Record<string, string>;
  /** by how they log in */
  accounts: Record<'password' | 'oauth', Account>;
  /** all emails of the accounts `password` and `oauth`, as the API returned them */
  emails: Email[];
  /** SHA-256 of what the API returns at these paths, in hex */
  files: Record<string, string>;
  /** of the account `password` */
  draft: { id: string; subject: string };
  /** ids of the events that the working endpoint has accepted */
  reported: string[];
  /** ids of the events that the failing endpoint is still to get */
  pending: string[];
  /** each of another account; a part of `messages` is imported */
  imports: Record<'paused' | 'running', Import>;
  messages: number;
  /** stars all emails of the account `password`; not begun */
  batch: EmailBatch;
  /** `accepted`: its copy is still to be filed; `waiting`: the SMTP server was silent */
  sends: Record<'accepted' | 'waiting', Sent>;
}

/** A send of the account `password`; its Idempotency-Key is the subject. */
export interface Sent {
  body: { to: { email: string }[]; subject: string; plain_text: string };
}

/** Where the product finds the servers of the test. */
export interface Ports {
  imap: number;
  smtp: number;
  auth: number;
  working: number;
  failing: number;
}

/** The folders of a store. */
export interface Places {
  /** DATA_DIR, named `data` */
  dataDir: string;
  /** of the Dovecot, named `mail` */
  mailDir: string;
}

/** Writes a store that nothing changes to a file. */
export async function writeStore(
  file: string,
  { dataDir, mailDir }: Places,
  recorded: Recorded,
  database: StoredDatabase,
): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'store-'));
  try {
    await writeFile(join(dir, 'recorded.json'), JSON.stringify(recorded));
    await writeFile(join(dir, 'database.json'), JSON.stringify(database));
    const data = (await readdir(dataDir)).filter((name) =>
      /^(bootstrap-api-key|encryption-key|storage|temporal\.db(-wal)?)$/.test(name),
    );
    await run('tar', [
      ...['--use-compress-program', 'xz -9', '--numeric-owner', '-cf', file],
      ...['-C', dir, 'recorded.json', 'database.json'],
      ...['-C', dirname(mailDir), 'mail'],
      ...['-C', dirname(dataDir), ...data.map((name) => join('data', name))],
    ]);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** What was written about a store. */
export async function readRecorded(file: string): Promise<Recorded> {
  return JSON.parse(await member(file, 'recorded.json')) as Recorded;
}

/** Puts the files of a store in their places; returns the rows, which name these ports instead of the recorded ones. */
export async function unpackStore(file: string, places: Places, ports: Ports): Promise<StoredDatabase> {
  const extract = (name: string, dir: string) =>
    run('tar', ['-xf', file, '--numeric-owner', '--same-owner', '-C', dir, '--strip-components=1', name]);
  await extract('data', places.dataDir);
  await extract('mail', places.mailDir);
  const recorded = (await readRecorded(file)).ports;
  const database = JSON.parse(await member(file, 'database.json')) as StoredDatabase;
  for (const [name, rows] of Object.entries(database.tables)) {
    // in one pass: a new port may be an old one of another server
    database.tables[name] = rows.replace(
      /(_port":\s*|\/\/127\.0\.0\.1:)(\d+)/g,
      (text, before: string, port: string) => {
        const server = (Object.keys(recorded) as (keyof Ports)[]).find((one) => recorded[one] === Number(port));
        return server === undefined ? text : `${before}${ports[server]}`;
      },
    );
  }
  return database;
}

async function member(file: string, name: string): Promise<string> {
  return (await run('tar', ['-xOf', file, name], { maxBuffer: 1 << 26 })).stdout;
}

/** The files of all recorded releases. */
export async function recordedStores(): Promise<string[]> {
  const names = await readdir(import.meta.dirname);
  return names.filter((name) => name.endsWith('.tar.xz')).map((name) => join(import.meta.dirname, name));
}
