import { FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { command, folderArgument, hasMove, hasUidplus, setArgument } from './command.ts';
import { refusedAs, refusedAsMissing, responseCode } from './response-codes.ts';
import type { Untagged } from './tokens.ts';
import { assertDeletable, expungeMessages } from './expunge.ts';
import { numbersOf, uidSets, unlessTooMany } from './sets.ts';
import type { VanishedEvent } from './imapflow-patches.ts';
import { findFolder } from './list.ts';
import { type ImapSession, limitsPerMessage } from './session.ts';
import { existing } from './store.ts';

/** The new locations of moved or copied messages. */
export interface Moved {
  /** UIDVALIDITY of the target folder; null where the server does not report it (no UIDPLUS) */
  uidValidity: number | null;
  /** UID in the source folder → UID in the target, as far as the server reports them */
  uids: Map<number, number>;
  /** UIDs that no longer existed */
  missing: number[];
}

type Verb = 'UID MOVE' | 'UID COPY';

interface Transfer {
  verb: Verb;
  /** path of the target folder */
  target: string;
}

const TRANSFER_TIMEOUT_MS = 300_000;
const MAX_ATTEMPTS = 3;

/**
 * Moves messages of the selected folder: MOVE (RFC 6851), else COPY, then `\Deleted` and EXPUNGE of only these. Between
 * the two a message is in both folders, and remains in both if the connection ends there.
 * @throws FolderMissing when the target does not exist; MailError
 */
export async function moveMessages(session: ImapSession, uids: number[], target: string): Promise<Moved> {
  if (hasMove(session)) return transfer(session, 'UID MOVE', uids, target);
  assertDeletable(session);
  const copied = await transfer(session, 'UID COPY', uids, target);
  await expungeMessages(session, without(uids, copied.missing));
  return copied;
}

/**
 * Copies messages of the selected folder (RFC 3501 6.4.7).
 * @throws FolderMissing when the target does not exist; MailError
 */
export function copyMessages(session: ImapSession, uids: number[], target: string): Promise<Moved> {
  return transfer(session, 'UID COPY', uids, target);
}

async function transfer(session: ImapSession, verb: Verb, uids: number[], target: string): Promise<Moved> {
  const uidplus = hasUidplus(session);
  // Without COPYUID no response says which messages existed: check first.
  const present = uidplus ? uids : await existing(session, uids);
  const missing = new Set(without(uids, present));
  const moved: Moved = { uidValidity: null, uids: new Map(), missing: [] };
  for (let left = present; left.length > 0; ) {
    const limit = session.messageLimit;
    const [set = ''] = uidSets(left, limit);
    const named = numbersOf(set);
    const part = await unlessTooMany(session, named.length, () => transferSet(session, { verb, target }, set));
    // refused for its size: smaller sets follow
    if (!part) continue;
    moved.uidValidity ??= part.uidValidity;
    for (const [from, to] of part.uids) moved.uids.set(from, to);
    // a MOVE may end at the limit (RFC 9738 3.2); a COPY does all or nothing
    const isCut = verb === 'UID MOVE' && session.messageLimit < limit;
    const { gone, remaining } = await outcomeOf(session, { verb, part, isCut }, named);
    if (uidplus || !isCut) for (const uid of gone) missing.add(uid);
    left = [...(isCut ? remaining : []), ...without(left, named)];
  }
  return { ...moved, missing: uids.filter((uid) => missing.has(uid)) };
}

/**
 * Of the UIDs that a transfer named and did not report, those that are not in the folder any longer, and those that are.
 * @throws MailError when the server reported a transfer that did not happen
 */
async function outcomeOf(
  session: ImapSession,
  { verb, part, isCut }: { verb: Verb; part: Part; isCut: boolean },
  named: number[],
): Promise<{ gone: number[]; remaining: number[] }> {
  // COPYUID names all transferred messages; without it, an expunge shows that some were transferred.
  const assumed = !isCut && (!hasUidplus(session) || part.expunged) ? part.asked : [];
  const unreported = without(named, part.uids.size > 0 ? [...part.uids.keys()] : assumed);
  const remaining = await existing(session, unreported);
  // A successful COPY without COPYUID leaves them unchanged.
  if (!isCut && remaining.length > 0 && (verb === 'UID MOVE' || part.uids.size > 0)) {
    throw new MailError('provider_error', 'imap', 'the IMAP server reported a move or copy that did not happen');
  }
  return { gone: without(unreported, remaining), remaining };
}

interface Part {
  /** the UIDs that the last attempt named */
  asked: number[];
  uidValidity: number | null;
  uids: Map<number, number>;
  /** during the attempt the server reported that messages of the set have left the folder */
  expunged: boolean;
}

/** One MOVE or COPY. The COPYUID comes before the tagged response (RFC 6851 4.3) or with it. */
async function transferSet(session: ImapSession, transfer: Transfer, set: string, attempt = 1): Promise<Part> {
  const { verb, target } = transfer;
  const part: Part = { asked: numbersOf(set), uidValidity: null, uids: new Map(), expunged: false };
  const numbers = new Set(part.asked);
  const take = (code: ReturnType<typeof responseCode>) => {
    if (code?.name !== 'COPYUID' || !hasUidplus(session)) return;
    const [validity, from = '', to = ''] = code.values;
    const [sources, targets] = [numbersOf(from, numbers.size), numbersOf(to, numbers.size)];
    if (sources.length !== targets.length) return;
    part.uidValidity = Number(validity) || null;
    sources.forEach((uid, index) => numbers.has(uid) && part.uids.set(uid, targets[index] as number));
  };
  const onExpunge = () => {
    part.expunged = true;
  };
  const onVanished = ({ ranges }: VanishedEvent) => {
    part.expunged ||= [...numbers].some((uid) => ranges.some(({ from, to }) => uid >= from && uid <= to));
  };
  const events: NodeJS.EventEmitter = session.client;
  events.on('expunge', onExpunge).on('vanished', onVanished);
  try {
    const args = [setArgument(set), folderArgument(session, target)];
    const untagged = { OK: (response: Untagged) => take(responseCode(response)) };
    take(await command(session, verb, args, { untagged, ...limitsPerMessage(session, TRANSFER_TIMEOUT_MS) }));
    return part;
  } catch (error) {
    if (!(error instanceof MailError) || !error.refused) throw error;
    if (refusedAsMissing(error) || !(await findFolder(session, target))) throw new FolderMissing(error);
    // A server may refuse a set that names expunged messages, before it has reported to this session that they are.
    const [left, ...more] = attempt < MAX_ATTEMPTS && refusedAs('expunged', error) ? await remaining(session, set) : [];
    if (left === undefined || more.length > 0) throw error;
    return left === '' ? { ...part, asked: [] } : await transferSet(session, transfer, left, attempt + 1);
  } finally {
    events.off('expunge', onExpunge).off('vanished', onVanished);
  }
}

/** The remaining UIDs of a set, as sets: one, since it did not grow. */
async function remaining(session: ImapSession, set: string): Promise<string[]> {
  const left = await existing(session, numbersOf(set));
  return left.length === 0 ? [''] : [...uidSets(left)];
}

function without(numbers: number[], taken: number[]): number[] {
  const away = new Set(taken);
  return numbers.filter((number) => !away.has(number));
}
