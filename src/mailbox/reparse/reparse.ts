import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { Db } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { countReparse, type StoredEmailRow } from './reparses.ts';
import type { Logger } from '../../runtime/logger.ts';
import type { MailParser, ParsedMail } from '../../mime/parser.ts';
import { isLost } from '../../storage/encrypted.ts';
import type { Storage } from '../../storage/storage.ts';
import { inTempFolder } from '../../runtime/temp-dir.ts';
import { recordCompletion } from '../change-emails.ts';
import { STREAM_FROM_BYTES } from '../ingest/fetch.ts';
import { removeTempDir } from '../ingest/store-attachments.ts';
import { deleteUnreferenced } from '../unsaved-files.ts';
import { differenceOf, isNone, type ReparsedAccount } from './difference.ts';
import { matchFiles } from './files.ts';
import { loadRows, lockRows, saveDifference } from './rows.ts';

export interface ReparseDeps {
  db: Db;
  storage: Storage;
  parser: Pick<MailParser, 'parse'>;
  tempDir: string;
  logger: Logger;
}

/** The outcome for one email: `incomplete`: cut short again; `unreadable`: its source is missing. */
export type ReparseOutcome = 'unchanged' | 'changed' | 'incomplete' | 'unreadable';

/** A multiple of the usual time limit: no caller waits for it. */
const PATIENCE = 5;

/**
 * Parses the source of a stored email again, and updates the columns that differ. Emits `email.update` when the email was
 * incomplete and now is complete, else no event: a better parser changes all stored mail. Idempotent.
 * @throws LeaseLost when the account is being removed; the errors of database and storage
 */
export async function reparseEmail(
  deps: ReparseDeps,
  account: ReparsedAccount,
  email: StoredEmailRow,
): Promise<ReparseOutcome> {
  const parsed = await parseStored(deps, email);
  if (parsed === null) {
    await countReparse(deps.db, email.id);
    return 'unreadable';
  }
  try {
    // A shorter result than the stored one would remove content.
    if (parsed.isPartial && email.isComplete) return 'incomplete';
    const isChanged = await saveReading(deps, account, email, parsed);
    if (parsed.isPartial) {
      await countReparse(deps.db, email.id);
      return 'incomplete';
    }
    return isChanged ? 'changed' : 'unchanged';
  } finally {
    await removeTempDir(parsed);
  }
}

/** Null when the source is missing. */
async function parseStored(
  { storage, parser, tempDir }: ReparseDeps,
  { storageKey, size }: StoredEmailRow,
): Promise<ParsedMail | null> {
  try {
    const source = await storage.get(storageKey);
    if (size < STREAM_FROM_BYTES) return await parser.parse(await buffer(source), { patience: PATIENCE });
    return await inTempFolder(tempDir, async (dir) => {
      const path = join(dir, 'source');
      await pipeline(source, createWriteStream(path, { mode: 0o600 }));
      return parser.parse({ path }, { patience: PATIENCE });
    });
  } catch (error) {
    if (isLost(error)) return null;
    throw error;
  }
}

/** True: something of the email has changed. A result that was cut short changes nothing where it would remove content. */
async function saveReading(
  deps: ReparseDeps,
  account: ReparsedAccount,
  email: StoredEmailRow,
  parsed: ParsedMail,
): Promise<boolean> {
  const { db, storage } = deps;
  const stored = await loadRows(db, email.id);
  if (!stored || (parsed.isPartial && !holdsAll(stored, parsed))) return false;
  const written: string[] = [];
  try {
    const files = await matchFiles({ storage, accountId: account.id, written }, parsed, ordered(stored));
    const reading = { parsed, attachments: files.attachments };
    if (isNone(await differenceOf(db, account, stored, reading))) return false;
    const isSaved = await inLease(db, { accountId: account.id, watchEpoch: null }, async (tx) => {
      const now = await lockRows(tx, email.id);
      // deleted, or replaced by another copy, since it was read
      if (!now || now.email.storageKey !== email.storageKey || !sameIds(now, stored)) return false;
      await saveDifference(tx, now, await differenceOf(tx, account, now, reading));
      const isCompleted = !now.email.isComplete && !parsed.isPartial;
      if (isCompleted) await recordCompletion(tx, account.id, email.id, new Date());
      return true;
    });
    await storage.delete(isSaved ? files.unused : written);
    return isSaved;
  } catch (error) {
    await deleteUnreferenced({ ...deps, account }, written);
    throw error;
  }
}

type Rows = NonNullable<Awaited<ReturnType<typeof loadRows>>>;

/**
 * Whether a result that was cut short has at least the stored content: as much text, as many headers and people, and as
 * many bytes of each file.
 */
function holdsAll({ email, contents }: Rows, parsed: ParsedMail): boolean {
  const amounts = [
    [contents.body.length, parsed.body.length],
    [contents.bodyPlain.length, parsed.bodyPlain.length],
    [contents.headers.length, parsed.headers.length],
    [contents.attachments.length, parsed.attachments.length],
    [email.fromAttendee.identifier.length, parsed.from.identifier.length],
    [email.toAttendees.length + email.ccAttendees.length, parsed.to.length + parsed.cc.length],
    [Number(contents.bodyNew !== null), Number(parsed.bodyNew !== null)],
    [Number(email.calendar !== null), Number(parsed.calendar !== null)],
  ] as const;
  if (amounts.some(([was, is]) => is < was)) return false;
  const bytes = bytesByName(parsed.attachments);
  return [...bytesByName(contents.attachments)].every(([name, size]) => (bytes.get(name) ?? -1) >= size);
}

function bytesByName(files: readonly { name: string; size: number }[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { name, size } of files) bytes.set(name, (bytes.get(name) ?? 0) + size);
  return bytes;
}

/** The attachments in the order in which the email shows them. */
function ordered({ contents, attachments }: Rows): Rows['attachments'] {
  const place = new Map(contents.attachments.map(({ id }, index) => [id, index]));
  return [...attachments].sort((a, b) => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0));
}

const sameIds = (a: Rows, b: Rows) =>
  a.attachments.length === b.attachments.length &&
  a.attachments.every(({ id }) => b.attachments.some((other) => other.id === id));
