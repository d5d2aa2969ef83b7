import { sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable } from '../../db/client.ts';
import { isLeaving } from '../../db/pending-removal.ts';
import type { Recognisable } from './locations.ts';

/** One folder in which an email lies, with what a command to it has to name and what recognises the mail elsewhere. */
export interface EmailPlace extends Recognisable {
  folderId: string;
  path: string;
  role: FolderRole;
  /** null: the folder was never opened */
  uidValidity: number | null;
  uid: number;
  seen: boolean;
  /** \Deleted is set */
  deleted: boolean;
  /** it is being moved away by copying, by a run that is under way or has died */
  leaving: boolean;
}

/**
 * Where an email lies now, as far as known: empty while it has left a folder and has not turned up in another.
 * Undefined: the account has no such email.
 */
export async function loadPlaces(db: Queryable, accountId: string, emailId: string): Promise<EmailPlace[] | undefined> {
  const { rows } = await db.execute<{ [Key in keyof EmailPlace]: EmailPlace[Key] | null }>(sql`
    select f.id as "folderId", f.path, f.role, f.uid_validity::float8 as "uidValidity", p.uid::float8 as uid, p.seen,
      p.deleted, ${sql.raw(isLeaving('p'))} as leaving, p.identity, p.weak_identity as "weakIdentity",
      p.server_id as "serverId"
    from emails e
    left join (placements p join folders f on f.id = p.folder_id) on p.email_id = e.id and p.vanished_at is null
    where e.id = ${emailId} and e.account_id = ${accountId}
    order by f.id, p.uid`);
  if (rows.length === 0) return undefined;
  return rows.filter((row): row is EmailPlace & Record<string, unknown> => row.folderId !== null);
}
