import { eq } from 'drizzle-orm';
import type { FolderChoice } from '../../contract/mailbox-config.ts';
import { FOLDER_ROLES } from '../../contract/folder.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { accounts } from '../../db/schema/index.ts';
import { MailError } from '../../mail-wire/mail-error.ts';

/** The choice of an account; `isApplied`: the folders that it adds are stored. */
export interface AccountChoice {
  folders: FolderChoice | null;
  isApplied: boolean;
}

/** What decides whether a folder is chosen. */
interface Choosable {
  path: string;
  delimiter: string | null;
  role: string;
}

/**
 * The folders of a list that the account stores. The list has to be whole: an entry covers the subfolders of what it names, by the
 * role of the folder above, too.
 */
export function chosenOf<T extends Choosable>(choice: FolderChoice | null | undefined, folders: readonly T[]): T[] {
  if (!choice) return [...folders];
  const roleOf = new Map(folders.map(({ path, role }) => [path, role]));
  const { include, exclude = [] } = choice;
  return folders.filter((folder) => {
    const line = lineOf(folder, roleOf);
    const isCovered = (entry: string) => covers(entry, line);
    return (!include || include.some(isCovered)) && !exclude.some(isCovered);
  });
}

/**
 * The stored folders that the account excludes, as far as this is known without the list of the server. Another program may have
 * renamed one since, and the one above it may not be stored: any could be what an entry of `include` names, except `INBOX`.
 */
export function surelyExcluded<T extends Choosable>(choice: FolderChoice | null, stored: readonly T[]): T[] {
  const { include, exclude = [] } = choice ?? {};
  const isOpen = !include?.every((entry) => entry.toUpperCase() === 'INBOX');
  const covered = new Set(chosenOf(isOpen ? { exclude } : choice, stored));
  return stored.filter((folder) => !covered.has(folder));
}

interface Named {
  path: string;
  role: string;
}

/** A folder and those above it. INBOX covers none: many servers have all folders in it. */
function lineOf({ path, delimiter, role }: Choosable, roleOf: ReadonlyMap<string, string>): Named[] {
  const parts = delimiter ? path.split(delimiter) : [path];
  const above = parts.slice(1).map((_, index) => parts.slice(0, index + 1));
  return [
    { path: parts.join('/'), role },
    ...above
      .map((names) => ({ path: names.join('/'), role: roleOf.get(names.join(delimiter ?? '')) ?? 'UNKNOWN' }))
      .filter(({ path: name }) => name.toUpperCase() !== 'INBOX'),
  ];
}

const ROLES = new Set<string>(FOLDER_ROLES.filter((role) => role !== 'UNKNOWN'));

function covers(entry: string, line: readonly Named[]): boolean {
  if (ROLES.has(entry)) return line.some(({ role }) => role === entry);
  return line.some(({ path }) => matches(entry, path) || matches(entry, path.replace(/^INBOX\//i, '')));
}

/** Whether a path matches a pattern, in which `*` stands for any characters; in linear time for each `*`. */
function matches(pattern: string, path: string): boolean {
  const normal = (text: string) => text.normalize('NFC').toLowerCase();
  const [first = '', ...rest] = normal(pattern).split('*');
  const text = normal(path);
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

/**
 * Locks in a choice for a transaction of the account's holder. Returns how folders that appeared are saved: `baseline` until those
 * that the choice adds are stored, since they were there before.
 * @throws MailError when the account has another one by now
 */
export async function assertCurrent(
  tx: Queryable,
  accountId: string,
  choice: AccountChoice | undefined,
): Promise<'baseline' | 'new'> {
  const { folderChoice: folders, choiceApplied } = accounts;
  const [row] = await tx.select({ folders, choiceApplied }).from(accounts).where(eq(accounts.id, accountId));
  if (isSame(row?.folders ?? null, choice?.folders ?? null)) return row?.choiceApplied === false ? 'baseline' : 'new';
  throw new MailError('provider_error', 'imap', 'the folders of this account were chosen anew; retry later');
}

function isSame(one: FolderChoice | null, other: FolderChoice | null): boolean {
  const text = (choice: FolderChoice | null) =>
    JSON.stringify(choice && [choice.include ?? null, choice.exclude ?? null]);
  return text(one) === text(other);
}
