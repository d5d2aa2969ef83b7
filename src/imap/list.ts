import type { ListResponse, StatusObject } from 'imapflow';
import { decodePath, normalizePath } from 'imapflow/lib/tools.js';
import type { FolderRole } from '../contract/folder.ts';
import { command, folderArgument } from './command.ts';
import { textOf, type Untagged } from './tokens.ts';
import { storable } from '../runtime/storable.ts';
import type { ImapSession } from './session.ts';

/** One folder as the server reports it at one moment. */
export interface FolderSnapshot {
  /** full path, decoded to Unicode */
  path: string;
  delimiter: string | null;
  name: string;
  parentPath: string | null;
  role: FolderRole;
  selectable: boolean;
  /** absent for folders that cannot be selected, or whose STATUS was refused or not asked for */
  status: FolderStatus | null;
}

export interface FolderStatus {
  uidValidity: number;
  uidNext: number;
  /** decimal, 63 bits; null without CONDSTORE */
  highestModseq: string | null;
  messages: number;
  unseen: number;
}

const STATUS_QUERY = { messages: true, uidNext: true, uidValidity: true, unseen: true, highestModseq: true };
/** 10,000 folders, each with its counters and its subscription, and a third more: imapflow sorts them in one go. */
const LIST_LIMITS = { deadlineMs: 120_000, maxResponses: 40_000 };

/** Every folder of the personal namespace, without the counters. */
export async function listFolders(session: ImapSession): Promise<FolderSnapshot[]> {
  const entries = await session.run('LIST', () => session.client.list(), LIST_LIMITS);
  return snapshotsOf(session, entries);
}

/** Which folders are listed. */
export interface ListOptions {
  /** those of the whole list that are returned; left out: all */
  choose?: (folders: FolderSnapshot[]) => FolderSnapshot[];
  /** whether to read the counters of a folder where each takes a command; left out: of all */
  wanted?: (folder: FolderSnapshot) => boolean;
}

/** Folders with their counters: one LIST-STATUS where the server supports it, else a STATUS for each. */
export async function listFoldersWithStatus(
  session: ImapSession,
  { choose = (folders) => folders, wanted = () => true }: ListOptions = {},
): Promise<FolderSnapshot[]> {
  if (session.has('LIST-STATUS') || session.has('IMAP4rev2')) {
    const entries = await session.run('LIST', () => session.client.list({ statusQuery: STATUS_QUERY }), LIST_LIMITS);
    return choose(snapshotsOf(session, entries));
  }
  const snapshots = choose(await listFolders(session));
  for (const snapshot of snapshots) {
    if (snapshot.selectable && wanted(snapshot)) snapshot.status = await statusOf(session, snapshot.path);
  }
  return snapshots;
}

/** STATUS of one folder; null when the server refuses it. */
export async function statusOf(session: ImapSession, path: string): Promise<FolderStatus | null> {
  const status = await session.run('STATUS', async () => {
    try {
      return await session.client.status(path, STATUS_QUERY);
    } catch (error) {
      if ((error as { code?: string }).code === 'NotFound') return false as const;
      throw error;
    }
  });
  return status ? folderStatus(status) : null;
}

/** The counters of a STATUS response; null when it lacks what a cursor needs. */
function folderStatus(status: StatusObject | { error?: unknown } | undefined): FolderStatus | null {
  if (!status || !('uidValidity' in status) || status.uidValidity === undefined || status.uidNext === undefined)
    return null;
  return {
    uidValidity: Number(status.uidValidity),
    uidNext: status.uidNext,
    highestModseq: status.highestModseq ? status.highestModseq.toString() : null,
    messages: status.messages ?? 0,
    unseen: status.unseen ?? 0,
  };
}

function snapshotsOf(session: ImapSession, entries: ListResponse[]): FolderSnapshot[] {
  // Folders below a prefix such as `INBOX.` (RFC 2342) are top-level folders, not children of INBOX.
  const prefix = session.client.namespace?.prefix ?? '';
  // names that are malformed (RFC 3501 5.1.3) may decode to what cannot be stored, or to the name of another folder
  const names = new Set<string>();
  const listed = entries.filter(({ path }) => {
    const isUsable = path !== '' && path === storable(path) && !names.has(path);
    return isUsable && names.add(path);
  });
  const snapshots = listed.map(
    (entry): FolderSnapshot => ({
      path: entry.path,
      delimiter: entry.delimiter || null,
      name: entry.name,
      parentPath: entry.parentPath && entry.parentPath + entry.delimiter !== prefix ? entry.parentPath : null,
      role: 'UNKNOWN',
      selectable: !hasFlag(entry.flags, '\\Noselect') && !hasFlag(entry.flags, '\\NonExistent'),
      status: folderStatus(entry.status),
    }),
  );
  // A role belongs to one folder, the first match: flags go before names.
  const taken = new Set<FolderRole>();
  for (const roleOf of [flaggedRole, guessedRole]) {
    listed.forEach((entry, index) => {
      const snapshot = snapshots[index];
      const role = roleOf(entry);
      if (snapshot?.role !== 'UNKNOWN' || role === undefined || taken.has(role)) return;
      snapshot.role = role;
      taken.add(role);
    });
  }
  return snapshots;
}

/** Attributes and flags are case-insensitive (RFC 3501 2.3.2, RFC 5258 6). */
function hasFlag(flags: Iterable<string>, name: string): boolean {
  return [...flags].some((flag) => flag.toLowerCase() === name.toLowerCase());
}

const SPECIAL_USE: Record<string, FolderRole> = {
  '\\Inbox': 'INBOX',
  '\\Sent': 'SENT',
  '\\Drafts': 'DRAFTS',
  '\\Trash': 'TRASH',
  '\\Junk': 'SPAM',
  '\\Archive': 'ARCHIVE',
  '\\All': 'ALL',
  '\\Important': 'IMPORTANT',
  '\\Flagged': 'STARRED',
};

/** The role of a special-use flag (RFC 6154, RFC 8457), or of INBOX. */
function flaggedRole({ path, flags }: ListResponse): FolderRole | undefined {
  if (path.toUpperCase() === 'INBOX') return 'INBOX';
  return Object.entries(SPECIAL_USE).find(([flag]) => hasFlag(flags, flag))?.[1];
}

/** The role of the well-known name that imapflow recognised in its language tables. */
function guessedRole({ specialUse }: ListResponse): FolderRole | undefined {
  return specialUse ? SPECIAL_USE[specialUse] : undefined;
}

/** A folder as LIST reports it. */
export interface FoundFolder {
  /** as the server writes it */
  path: string;
  /** between a folder and its subfolders; null without a hierarchy */
  delimiter: string | null;
}

/**
 * Finds a folder with LIST. A name that differs only in case counts when the server treats both as the same.
 * @throws MailError
 */
export async function findFolder(session: ImapSession, path: string): Promise<FoundFolder | undefined> {
  const wanted = normalizePath(session.client, path);
  const found: FoundFolder[] = [];
  const listen = ({ attributes = [] }: Untagged) => {
    const raw = textOf(attributes[2]);
    if (raw === undefined) return;
    found.push({ path: decodePath(session.client, raw), delimiter: textOf(attributes[1]) ?? null });
  };
  // `*` and `%` in the name are wildcards here (RFC 3501 6.3.8): other matches are ignored.
  const args = [{ type: 'STRING' as const, value: '' }, folderArgument(session, path)];
  await command(session, 'LIST', args, { untagged: { LIST: listen } });
  const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
  return found.find((each) => each.path === wanted) ?? found.find((each) => same(each.path, wanted));
}
