import type { FetchMessageObject } from 'imapflow';
import { atom, command, setArgument } from './command.ts';
import { textOf, type Token, type Untagged } from './tokens.ts';
import { refusedAs } from './response-codes.ts';
import { inSets, numbersOf, uidSets } from './sets.ts';
import { type ImapSession, limitsPerMessage } from './session.ts';

const STORE_TIMEOUT_MS = 120_000;

/**
 * Adds and removes flags of messages in the selected folder (RFC 3501 6.4.6). Omits keywords that the folder does not keep,
 * and removes keywords in the case that the server has: some distinguish cases.
 * @returns the resulting flags by UID; messages that no longer exist are missing
 * @throws MailError
 */
export async function storeFlags(
  session: ImapSession,
  uids: number[],
  change: { add?: string[]; remove?: string[] },
): Promise<Map<number, Set<string>>> {
  const add = keepable(session, change.add ?? []);
  const remove = keepable(session, change.remove ?? []);
  const flags = new Map<number, Set<string>>();
  const wanted = new Set(uids);
  const listen = (untagged: Untagged) => {
    const row = flagsOf(untagged);
    if (row && wanted.has(row.uid)) flags.set(row.uid, row.flags);
  };
  await inSets(session, uids, async (set) => {
    // Only the flags after the last STORE count.
    if (add.length > 0)
      await store(session, set, { item: remove.length > 0 ? '+FLAGS.SILENT' : '+FLAGS', flags: add }, listen);
    if (remove.length > 0) await store(session, set, { item: '-FLAGS', flags: remove }, listen);
  });
  // Unreported messages are expunged, or unchanged: some servers report only changes.
  const unreported = uids.filter((uid) => !flags.has(uid));
  for (const [uid, now] of await fetchFlagSets(session, unreported)) flags.set(uid, now);
  const spelled = inOtherCase(remove, flags.values());
  if (spelled.length === 0) return flags;
  const there = [...flags.keys()];
  await storeSilently(session, there, '-', spelled);
  return fetchFlagSets(session, there);
}

/** Of the flags that messages have, those that are one of `names` in another case. */
function inOtherCase(names: string[], sets: Iterable<ReadonlySet<string>>): string[] {
  const wanted = new Set(names.map((name) => name.toLowerCase()));
  const isOther = (flag: string) => wanted.has(flag.toLowerCase()) && !names.includes(flag);
  return [...new Set([...sets].flatMap((flags) => [...flags].filter(isOther)))];
}

/** One STORE without the resulting flags. */
export async function storeSilently(
  session: ImapSession,
  uids: number[],
  operation: '+' | '-',
  flags: string[],
): Promise<void> {
  await inSets(session, uids, (set) => store(session, set, { item: `${operation}FLAGS.SILENT`, flags }));
}

/** All flags of messages in the selected folder, by UID; messages that do not exist are missing. */
export async function fetchFlagSets(session: ImapSession, uids: number[]): Promise<Map<number, Set<string>>> {
  const wanted = new Set(uids);
  const flags = new Map<number, Set<string>>();
  const collect = async (set: string) => {
    for await (const row of session.client.fetch(set, { uid: true, flags: true }, { uid: true })) read(row);
  };
  const read = (row: FetchMessageObject) => {
    if (row.flags && wanted.has(row.uid)) flags.set(row.uid, lasting(row.flags));
  };
  await inSets(session, uids, (set) =>
    session.run('FETCH', () => collect(set), limitsPerMessage(session, STORE_TIMEOUT_MS)),
  );
  return flags;
}

/** Those of the UIDs that are in the selected folder now: the NOOP makes the server report what was expunged. */
export async function existing(session: ImapSession, uids: number[]): Promise<number[]> {
  if (uids.length === 0) return [];
  await session.run('NOOP', () => session.client.noop());
  const flags = await fetchFlagSets(session, uids);
  return uids.filter((uid) => flags.has(uid));
}

const MAX_ATTEMPTS = 3;

async function store(
  session: ImapSession,
  set: string,
  { item, flags }: { item: string; flags: string[] },
  listen: (untagged: Untagged) => void = () => {},
): Promise<void> {
  const limits = limitsPerMessage(session, STORE_TIMEOUT_MS);
  for (let left: string | undefined = set, attempt = 1; left !== undefined; attempt++) {
    const args = [setArgument(left), atom(item), flags.map(atom)];
    try {
      await command(session, 'UID STORE', args, { untagged: { FETCH: listen }, ...limits });
      return;
    } catch (error) {
      // A server may refuse a set that names expunged messages (RFC 5530 EXPUNGEISSUED): those that are left get the flags.
      if (attempt === MAX_ATTEMPTS || !refusedAs('expunged', error)) throw error;
      const [first, ...more] = uidSets(await existing(session, numbersOf(left)));
      if (more.length > 0) throw error;
      left = first;
    }
  }
}

/**
 * Of these flags, those that the selected folder does not keep beyond the session, in any case: PERMANENTFLAGS (RFC 3501 7.1)
 * names the others, and `\*` stands for any keyword. None where the server does not say.
 */
export function notKept(session: ImapSession, flags: string[]): string[] {
  const { mailbox } = session.client;
  const permanent = mailbox ? mailbox.permanentFlags : undefined;
  if (!permanent) return [];
  const names = new Set([...permanent].map((name) => name.toLowerCase()));
  const isKept = (flag: string) => names.has(flag.toLowerCase()) || (!flag.startsWith('\\') && names.has('\\*'));
  return flags.filter((flag) => !isKept(flag));
}

function keepable(session: ImapSession, flags: string[]): string[] {
  const lost = new Set(notKept(session, flags));
  return flags.filter((flag) => flag.startsWith('\\') || !lost.has(flag));
}

/** `* 12 FETCH (UID 7 FLAGS (\Seen))`; undefined when the UID or the flags are not in it. */
function flagsOf({ attributes }: Untagged): { uid: number; flags: Set<string> } | undefined {
  const items = attributes?.[1];
  if (!Array.isArray(items)) return undefined;
  const valueOf = (name: string): Token =>
    items[items.findIndex((item, index) => index % 2 === 0 && textOf(item)?.toUpperCase() === name) + 1];
  const uid = Number(textOf(valueOf('UID')));
  const flags = valueOf('FLAGS');
  if (!Number.isSafeInteger(uid) || uid <= 0 || !Array.isArray(flags)) return undefined;
  return { uid, flags: lasting(flags.map(textOf).filter((flag) => flag !== undefined)) };
}

/** Without `\Recent`, which belongs to the session, not to the message. */
function lasting(flags: Iterable<string>): Set<string> {
  return new Set([...flags].filter((flag) => flag.toLowerCase() !== '\\recent'));
}
