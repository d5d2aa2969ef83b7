import type { Db } from '../db/driver/client.ts';
import type { Lease } from '../db/coordination/lease.ts';
import type { ImapSession } from '../imap/session.ts';
import type { Logger } from '../runtime/logger.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Storage } from '../storage/storage.ts';
import type { AccountChoice } from './folders/choice.ts';
import type { UndeliveredMessages } from './ingest/undelivered.ts';
import type { FolderRefusals } from './refusals.ts';

/** The account whose mail is ingested. */
export interface SyncAccount {
  id: string;
  /** lower-cased addresses of the mailbox's owner */
  ownAddresses: string[];
  /** mail that was in the mailbox before this is not new */
  connectedAt: Date;
  /** which folders are stored; left out: all */
  choice?: AccountChoice;
}

/** What every step of a sync needs. A context belongs to one connection: another connection gets another context. */
export interface SyncContext {
  readonly db: Db;
  readonly storage: Storage;
  readonly parser: MailParser;
  readonly logger: Logger;
  /** directory for messages that are too large for memory */
  readonly tempDir: string;
  readonly session: ImapSession;
  /** opens another connection to the same mailbox; the caller ends it */
  reopen(): Promise<ImapSession>;
  readonly lease: Lease;
  readonly account: SyncAccount;
  /** of all connections that a watch opens one after the other */
  readonly refusals: FolderRefusals;
  readonly undelivered: UndeliveredMessages;
  /** whether the baseline of every folder has been scanned: until then older mail cannot be matched when it moves */
  baselineKnown(): boolean;
}
