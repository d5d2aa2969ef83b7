import { decodePath, normalizePath } from 'imapflow/lib/tools.js';
import { command, folderArgument, textOf, type Untagged } from './command.ts';
import type { ImapSession } from './session.ts';

/** What LIST says of one folder. */
export interface FoundFolder {
  /** as the server writes it */
  path: string;
  /** between a folder and those in it; null where there is no hierarchy */
  delimiter: string | null;
}

/**
 * Looks with LIST whether a folder exists. Names that differ in upper and lower case alone count when the server takes
 * them for the same. @throws MailError
 */
export async function findFolder(session: ImapSession, path: string): Promise<FoundFolder | undefined> {
  const wanted = normalizePath(session.client, path);
  const found: FoundFolder[] = [];
  const hear = ({ attributes = [] }: Untagged) => {
    const raw = textOf(attributes[2]);
    if (raw === undefined) return;
    found.push({ path: decodePath(session.client, raw), delimiter: textOf(attributes[1]) ?? null });
  };
  // `*` and `%` in the name stand for any text here (RFC 3501 6.3.8): what they bring beside it is passed over.
  const args = [{ type: 'STRING' as const, value: '' }, folderArgument(session, path)];
  await command(session, 'LIST', args, { untagged: { LIST: hear } });
  const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
  return found.find((each) => each.path === wanted) ?? found.find((each) => same(each.path, wanted));
}
