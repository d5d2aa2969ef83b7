import { sleep } from '../async.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { command, hasUidplus, setArgument } from './command.ts';
import { fetchNewestFlags, readFlags } from './fetch.ts';
import { inSets } from './sets.ts';
import { existsIn } from './list-uids.ts';
import { type ImapSession, limitsPerMessage } from './session.ts';
import { fetchFlagSets, notKept, storeFlags, storeSilently } from './store.ts';

const DELETED = ['\\Deleted'];
const EXPUNGE_TIMEOUT_MS = 120_000;
const MAX_ATTEMPTS = 10;

/** @throws MailError provider_rejected when the selected folder does not keep `\Deleted`: no message can be deleted from it */
export function assertDeletable(session: ImapSession): void {
  if (notKept(session, DELETED).length > 0) throw notDeletable();
}

function notDeletable(): MailError {
  const detail = 'the mail server does not allow messages to be removed from this folder';
  return new MailError('provider_rejected', 'imap', detail, { refused: true });
}

/**
 * Permanently deletes only these messages of the selected folder; UIDs that no longer exist are ignored. Uses UID EXPUNGE
 * (RFC 4315), else EXPUNGE, which spares the messages that other mail programs marked.
 * @throws MailError, provider_rejected when the server ignores `\Deleted`
 */
export async function expungeMessages(session: ImapSession, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  if (!hasUidplus(session)) return expungeSparingly(session, uids);
  const marked = await storeFlags(session, uids, { add: DELETED });
  if ([...marked.values()].some((flags) => !readFlags(flags).deleted)) throw notDeletable();
  await inSets(session, uids, async (set) => {
    await command(session, 'UID EXPUNGE', [setArgument(set)], limitsPerMessage(session, EXPUNGE_TIMEOUT_MS));
  });
}

/**
 * EXPUNGE deletes every marked message, so marks of other clients are removed for that moment. A message that another
 * client marks in between is lost, as RFC 4315 says of servers without UIDPLUS: the sessions of one pool do this one at a
 * time. Another process that does this removes our marks, so this repeats until our messages are deleted.
 */
async function expungeSparingly(session: ImapSession, uids: number[]): Promise<void> {
  let left = uids;
  let attempt = 1;
  while (left.length > 0) {
    if (attempt > MAX_ATTEMPTS)
      throw new MailError('provider_error', 'imap', 'the IMAP server did not delete the messages');
    if (attempt > 1) await sleep(Math.random() * 50 * attempt);
    const marked = left;
    await (session.exclusive ?? ((work) => work()))(() => expungeMarked(session, marked));
    const existing = await fetchFlagSets(session, left);
    left = left.filter((uid) => existing.has(uid));
    // a server may delete only so many at one time
    attempt = left.length < marked.length ? 1 : attempt + 1;
  }
}

async function expungeMarked(session: ImapSession, uids: number[]): Promise<void> {
  const deleting = new Set(uids);
  const others = (await markedDeleted(session)).filter((uid) => !deleting.has(uid));
  try {
    await storeSilently(session, others, '-', DELETED);
    await storeSilently(session, uids, '+', DELETED);
    await command(session, 'EXPUNGE', [], limitsPerMessage(session, EXPUNGE_TIMEOUT_MS));
  } finally {
    if (session.client.usable) await storeSilently(session, others, '+', DELETED);
  }
}

/** The NOOP makes the server report changes first: EXPUNGE deletes all messages marked by then. */
async function markedDeleted(session: ImapSession): Promise<number[]> {
  await session.run('NOOP', () => session.client.noop());
  const isLimited = () => session.messageLimit < existsIn(session);
  const marked = isLimited()
    ? false
    : await session.run('SEARCH', () => session.client.search({ deleted: true }, { uid: true }));
  // imapflow returns false for a refused SEARCH
  if (Array.isArray(marked) && !isLimited()) return marked;
  return (await fetchNewestFlags(session)).filter(({ deleted }) => deleted).map(({ uid }) => uid);
}
