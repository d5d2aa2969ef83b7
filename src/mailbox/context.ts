import type { Db } from '../db/client.ts';
import type { Lease } from '../db/lease.ts';
import type { ImapSession } from '../imap/session.ts';
import type { Logger } from '../logger.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Storage } from '../storage/storage.ts';

/** The account whose mail is taken in. */
export interface SyncAccount {
  id: string;
  /** lower-cased addresses of the mailbox's owner */
  ownAddresses: string[];
  /** mail that lay in the mailbox before this is not new */
  connectedAt: Date;
}

/** What every step of taking in one account's mail needs. */
export interface SyncContext {
  db: Db;
  storage: Storage;
  parser: MailParser;
  /** where mail may be put while it is read */
  tempDir: string;
  logger: Logger;
  /** the connection that is used now; `reopen` gives a new one */
  session: ImapSession;
  /** no folder list has been asked for on it yet */
  freshSession: boolean;
  /** opens another connection to the same mailbox */
  reopen(): Promise<ImapSession>;
  lease: Lease;
  account: SyncAccount;
  /** whether every folder's baseline has been scanned, so that moved old mail is recognised */
  baselineKnown(): boolean;
}
