import { formatDateTime } from 'imapflow/lib/tools.js';
import { FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { type Argument, atom, command, folderArgument, hasUidplus } from './command.ts';
import { refusedAs, refusedAsMissing } from './response-codes.ts';
import { findFolder } from './list.ts';
import type { ImapSession } from './session.ts';

const APPEND_TIMEOUT_MS = 60_000;
/** The slowest upload that is waited for: 32 KB/s. */
const BYTES_PER_MS = 32;

/**
 * Appends a message to a folder (APPEND, RFC 3501 6.3.11), which need not be selected.
 * @param options.date INTERNALDATE; without one the server uses the current time
 * @returns the location (APPENDUID, RFC 4315); null where the server does not report it
 * @throws MailError provider_rejected when it exceeds a size limit or the quota; FolderMissing; MailError
 */
export async function appendMessage(
  session: ImapSession,
  path: string,
  source: Buffer,
  options: { flags: string[]; date?: Date },
): Promise<{ uidValidity: number; uid: number } | null> {
  const limit: unknown = session.client.capabilities.get('APPENDLIMIT');
  if (typeof limit === 'number' && limit > 0 && source.length > limit) throw tooMuch();
  const isLiteral8 = session.has('BINARY') && source.includes(0);
  const date = options.date && formatDateTime(options.date);
  const args: Argument[] = [
    folderArgument(session, path),
    options.flags.map(atom),
    ...(date ? [{ type: 'STRING' as const, value: date }] : []),
    { type: 'LITERAL', value: source, isLiteral8 },
  ];
  const uploadMs = APPEND_TIMEOUT_MS + source.length / BYTES_PER_MS;
  // The server is silent while it receives the message.
  const limits = { deadlineMs: uploadMs, silenceMs: uploadMs };
  const code = await command(session, 'APPEND', args, limits).catch((error: unknown) => judge(session, path, error));
  const [uidValidity, uid] = hasUidplus(session) && code?.name === 'APPENDUID' ? code.values.map(Number) : [];
  return uidValidity && uid ? { uidValidity, uid } : null;
}

async function judge(session: ImapSession, path: string, error: unknown): Promise<never> {
  if (!(error instanceof MailError) || !error.refused) throw error;
  if (refusedAs('tooMuch', error)) throw tooMuch(error);
  if (refusedAsMissing(error) || !(await findFolder(session, path))) throw new FolderMissing(error);
  throw error;
}

function tooMuch(cause?: unknown): MailError {
  const detail = 'the message is too large for the mailbox, or the mailbox is full (size limit or quota)';
  return new MailError('provider_rejected', 'imap', detail, { refused: true, cause });
}
