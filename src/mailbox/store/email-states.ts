import { sql } from 'drizzle-orm';
import { flagsDiffer, unionOf } from '../../contract/flags.ts';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { shownFolders } from '../../db/queries/mail/email-object.ts';
import { isPendingRemoval } from '../../db/queries/pending-removal.ts';
import { statement } from '../../db/driver/statement.ts';
import type { Writer } from '../../db/driver/writes.ts';
import { emails } from '../../db/schema/index.ts';
import type { EmailState } from '../email-transition.ts';

/** The location and the changing columns of an email. */
export interface LocatedEmail extends EmailState {
  id: string;
  draftId: string | null;
  missingSince: Date | null;
  /** no folder holds it */
  gone: boolean;
  /** when it left a folder last */
  leftAt: Date | null;
  /** `shown` as its last event says */
  reported: string[];
  /** `reported` as it is stored: null where readers see the folders of the last event */
  reportedFolders: string[] | null;
  locations: StoredLocation[];
}

const locatedEmails = statement(
  'locate_emails',
  (ids: string[]) => sql`select ${LOCATED} as email from emails e where e.id = ${idsOf(ids)}`,
);

/** Where the emails of these ids are. */
export async function locateEmails(tx: Queryable, ids: string[]): Promise<Map<string, LocatedEmail>> {
  if (ids.length === 0) return new Map();
  const { rows } = await tx.execute<{ email: StoredState }>(locatedEmails(ids));
  return new Map(rows.map(({ email }) => [email.id, located(email)]));
}

/** Gives emails the flags that their locations have, see `withFlagsOfLocations`; returns their state. */
export async function refreshEmails(tx: Tx, ids: string[]): Promise<Map<string, LocatedEmail>> {
  if (ids.length === 0) return new Map();
  const { rows } = await tx.execute<{ email: StoredState }>(locatedEmails(ids));
  const now = rows.map(({ email }) => withFlagsOfLocations(email));
  await saveEmailFlags(
    tx,
    now.filter((email, index) => haveOtherFlags(email, (rows[index] as { email: StoredState }).email)),
  );
  return new Map(now.map((email) => [email.id, located(email)]));
}

/** Whether the stored flags of an email differ. */
export function haveOtherFlags(a: StoredState, b: StoredState): boolean {
  return a.isUnread !== b.isUnread || (a.flags === null) !== (b.flags === null) || flagsDiffer(a.flags, b.flags);
}

const idsOf = (ids: string[]) => sql`any(${sql.param(ids)}::text[])`;

/** An email as `located` reads it, as JSON: a part of a statement that has `emails e`. */
export const LOCATED = sql.raw(`json_build_object(
  'id', e.id, 'isUnread', e.is_unread, 'flags', e.flags, 'isDraft', e.is_draft, 'draftId', e.draft_id, 'missingSince', e.missing_since,
  'reportedFolders', e.reported_folders, 'locations', (
    select coalesce(json_agg(json_build_object('folderId', p.folder_id, 'uid', p.uid, 'role', f.role, 'seen', p.seen,
      'flags', p.flags, 'deleted', p.deleted, 'pendingRemoval', ${isPendingRemoval('p')}, 'vanishedAt', p.vanished_at)), '[]')
    from locations p left join folders f on f.id = p.folder_id where p.email_id = e.id))`);

/** A value of LOCATED. */
export interface StoredState
  extends Pick<LocatedEmail, 'id' | 'isUnread' | 'flags' | 'isDraft' | 'draftId' | 'reportedFolders' | 'locations'> {
  /** RFC 3339 */
  missingSince: string | null;
}

export interface StoredLocation {
  folderId: string;
  uid: number;
  /** null: the folder was deleted */
  role: string | null;
  seen: boolean;
  flags: string[] | null;
  /** it is marked with \Deleted */
  deleted: boolean;
  /** it is pending removal */
  pendingRemoval: boolean;
  /** RFC 3339 */
  vanishedAt: string | null;
}

/** An email with the flags that its locations have: those of any of them. One that no folder holds is as it was. */
export function withFlagsOfLocations(email: StoredState): StoredState {
  const live = email.locations.filter(({ vanishedAt }) => !vanishedAt);
  if (live.length === 0) return email;
  return { ...email, isUnread: !live.some(({ seen }) => seen), flags: unionOf(live.map(({ flags }) => flags)) };
}

/** Converts a value of LOCATED to a state. */
export function located({ missingSince, ...email }: StoredState): LocatedEmail {
  const { locations: all } = email;
  const live = all.filter((location) => !location.vanishedAt);
  const isStaying = ({ deleted, pendingRemoval }: StoredLocation) => !deleted && !pendingRemoval;
  const staying = live.some(isStaying) ? live.filter(isStaying) : live;
  const shown = shownFolders(
    all.flatMap((location) => {
      const { folderId, role } = location;
      return role === null ? [] : [{ folderId, role, deleted: !isStaying(location) }];
    }),
  );
  return {
    ...email,
    missingSince: missingSince === null ? null : new Date(missingSince),
    shown,
    reported: email.reportedFolders ?? shown,
    inDeletedFolder: all.some(({ role }) => role === null),
    roles: staying.map((location) => location.role as FolderRole),
    missing: live.length < all.length || live.length === 0,
    gone: live.length === 0,
    leftAt: latest(all.flatMap(({ vanishedAt }) => (vanishedAt === null ? [] : new Date(vanishedAt)))),
  };
}

function latest(dates: Date[]): Date | null {
  return dates.reduce<Date | null>((last, date) => (last && last > date ? last : date), null);
}

/** Columns of an email that change when it comes to other folders, or leaves them. */
export type MailboxState = Pick<LocatedEmail, 'id' | 'isDraft' | 'draftId' | 'missingSince'>;

/** Stores these columns of emails, in one statement. */
export async function saveMailboxStates(tx: Tx, states: MailboxState[]): Promise<void> {
  if (states.length === 0) return;
  const rows = states.map(({ id, isDraft, draftId, missingSince }) => ({
    id,
    is_draft: isDraft,
    draft_id: draftId,
    missing_since: missingSince,
  }));
  await tx.execute(sql`
    update emails e set is_draft = r.is_draft, draft_id = r.draft_id, missing_since = r.missing_since
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as r(id text, is_draft boolean, draft_id text, missing_since timestamptz)
    where e.id = r.id`);
}

/** Stores the flags of emails. */
export async function saveEmailFlags(
  writes: Writer,
  states: Pick<LocatedEmail, 'id' | 'isUnread' | 'flags'>[],
): Promise<void> {
  if (states.length === 0) return;
  const rows = states.map(({ id, isUnread, flags }) => ({ id, is_unread: isUnread, flags }));
  await writes.execute(
    sql`
    update emails e set is_unread = r.is_unread, flags = r.flags
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, is_unread boolean, flags text[])
    where e.id = r.id`,
    { table: emails },
  );
}

/** Records which folders the last events of emails name; null: those that readers see. */
export async function saveReportedFolders(tx: Tx, reported: { id: string; folders: string[] | null }[]): Promise<void> {
  if (reported.length === 0) return;
  await tx.execute(sql`
    update emails e set reported_folders = r.folders
    from json_to_recordset(${JSON.stringify(reported)}::json) as r(id text, folders text[])
    where e.id = r.id`);
}
