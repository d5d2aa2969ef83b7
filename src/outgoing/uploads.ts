import { and, gt, lte, sql } from 'drizzle-orm';
import { type Upload, UPLOAD_HOURS } from '../contract/sending.ts';
import { anyOf } from '../db/driver/any-of.ts';
import type { Db, Queryable } from '../db/driver/client.ts';
import { uploads } from '../db/schema/index.ts';
import type { Storage } from '../storage/storage.ts';

/*
 * Uploads belong to the key or person that made them. Their bytes are separate objects, `uploads/<upload>/<offset>.<random>`,
 * which their rows name in order. What a send or a draft attaches is copied into its input (outgoing-input.ts) and no longer
 * depends on the upload.
 */
export type UploadRow = typeof uploads.$inferSelect;

const prefixOf = (id: string) => `uploads/${id}/`;

/** Storage key of the bytes from `start` on. `suffix` differs between two calls that store the same bytes. */
export const partKeyOf = (id: string, start: number, suffix: string) => `${prefixOf(id)}${start}.${suffix}`;

/** What the API shows of an upload. */
export function shownUpload({ id, size, received, filename, contentType, createdAt, expiresAt }: UploadRow): Upload {
  return {
    object: 'Upload',
    id,
    status: received === size ? 'complete' : 'uploading',
    size,
    received,
    filename,
    content_type: contentType,
    created_at: createdAt.toISOString(),
    expires_at: expiresAt.toISOString(),
  };
}

export type NewUpload = Pick<UploadRow, 'id' | 'apiKeyId' | 'filename' | 'contentType' | 'size'>;

/** Creates an upload unless those of its key would then have more than `mostBytes`: undefined. */
export async function createUpload(
  db: Db,
  upload: NewUpload,
  mostBytes: number,
  now = new Date(),
): Promise<UploadRow | undefined> {
  const expiresAt = new Date(now.getTime() + UPLOAD_HOURS * 3_600_000);
  return db.transaction(async (tx) => {
    // calls of one key are counted one after the other
    await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${`uploads of ${upload.apiKeyId}`}, 0))`);
    const { rows } = await tx.execute<{ bytes: number }>(sql`
      select coalesce(sum(size), 0)::float8 as bytes from uploads
      where api_key_id = ${upload.apiKeyId} and expires_at > ${now.toISOString()}::timestamptz`);
    if ((rows[0]?.bytes ?? 0) + upload.size > mostBytes) return undefined;
    const [row] = await tx
      .insert(uploads)
      .values({ ...upload, createdAt: now, expiresAt })
      .returning();
    return row;
  });
}

/** The upload with this id; undefined when it does not exist or has expired. */
export async function findUpload(db: Queryable, id: string): Promise<UploadRow | undefined> {
  return (await findUploads(db, [id]))[0];
}

/** Those of these uploads that have not expired. */
export function findUploads(db: Queryable, ids: string[]): Promise<UploadRow[]> {
  return db
    .select()
    .from(uploads)
    .where(and(anyOf(uploads.id, ids), gt(uploads.expiresAt, sql`now()`)));
}

/** Bytes of an upload that are stored. */
export interface StoredPart {
  key: string;
  /** offset of the first of them */
  start: number;
  size: number;
}

/** Names the stored bytes in the row of their upload, unless another call has stored bytes from there on. @returns whether it did */
export async function addPart(db: Queryable, id: string, { key, start, size }: StoredPart): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update uploads set received = received + ${size}, parts = array_append(parts, ${key}::text)
    where id = ${id} and received = ${start} and expires_at > now()`);
  return rowCount === 1;
}

/** Records that the file ends where the stored bytes do. */
export async function endUpload(db: Queryable, id: string): Promise<void> {
  await db.execute(sql`update uploads set size = received where id = ${id}`);
}

/** The bytes of an upload. @throws StorageMissing */
export async function* bytesOf(storage: Storage, { parts }: Pick<UploadRow, 'parts'>): AsyncGenerator<Buffer> {
  for (const key of parts) yield* (await storage.get(key)) as AsyncIterable<Buffer>;
}

/** Deletes uploads with their bytes. Bytes of a call under way may be left: housekeeping deletes them. */
export async function deleteUploads(
  { db, storage }: { db: Queryable; storage: Pick<Storage, 'deletePrefix'> },
  ids: string[],
): Promise<void> {
  for (const id of ids) await storage.deletePrefix(prefixOf(id));
  await db.delete(uploads).where(anyOf(uploads.id, ids));
}

/** Uploads of one statement whose bytes are deleted. */
const AT_ONCE = 20;

/**
 * Deletes expired uploads.
 * @param over whether time is up; called before each step
 * @returns whether nothing is left to delete
 */
export async function deleteExpiredUploads(
  deps: Parameters<typeof deleteUploads>[0],
  over: () => boolean,
): Promise<boolean> {
  for (;;) {
    if (over()) return false;
    const expired = await deps.db
      .select({ id: uploads.id })
      .from(uploads)
      .where(lte(uploads.expiresAt, sql`now()`))
      .limit(AT_ONCE);
    if (expired.length === 0) return true;
    const ids = expired.map(({ id }) => id);
    await deleteUploads(deps, ids);
  }
}

/** Older objects of uploads belong to none: uploads have expired by then, and are deleted within the hour. */
const LEFT_MS = 2 * UPLOAD_HOURS * 3_600_000;

/**
 * Deletes objects of uploads that no longer exist: a process that is killed between writing one and saving its row leaves them.
 * @param over whether time is up; called before each step
 * @returns how many it deleted
 */
export async function sweepUploads(
  storage: Pick<Storage, 'list' | 'deletePrefix' | 'deleteUnfinished'>,
  over: () => boolean,
  now = new Date(),
): Promise<number> {
  let deleted = 0;
  await storage.deleteUnfinished('uploads/', new Date(now.getTime() - LEFT_MS));
  for (let after: string | undefined; ; ) {
    if (over()) return deleted;
    const objects = await storage.list('uploads/', after);
    const left = objects.filter(({ modifiedAt }) => now.getTime() - modifiedAt.getTime() > LEFT_MS);
    for (const id of new Set(left.map(({ key }) => key.split('/')[1] ?? ''))) await storage.deletePrefix(prefixOf(id));
    deleted += left.length;
    after = objects.at(-1)?.key;
    if (after === undefined) return deleted;
  }
}
