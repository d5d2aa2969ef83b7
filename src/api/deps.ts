import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import type { AuthIntent, MailboxReparse, MailboxVerification } from '../contract/account.ts';
import type { MailServers } from '../contract/auth-link.ts';
import type { UpdateFolder } from '../contract/folder.ts';
import type { Run } from '../contract/history.ts';
import type { Settings } from '../contract/installation.ts';
import type { DraftResult, DraftSent, EmailSent, SendInput } from '../contract/sending.ts';
import type { Caller } from '../db/access/api-keys.ts';
import type { Db } from '../db/driver/client.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import type { Storage } from '../storage/storage.ts';
import type { SendLimits } from './send-input.ts';

/** Changes of a mailbox; each resolves when the provider has confirmed it and it is stored. */
export interface ChangeCommands {
  markEmail(accountId: string, emailId: string, seen: boolean): Promise<void>;
  /** Moves an email to that folder; afterwards it is in no other. */
  moveEmail(accountId: string, emailId: string, folderId: string): Promise<void>;
  /** Moves an email to the folder whose role is TRASH, which is created if missing. */
  trashEmail(accountId: string, emailId: string): Promise<void>;
  /** Creates a folder with the given id; repeating the call with the same id creates no second one. */
  createFolder(accountId: string, folderId: string, folder: { name: string; parentId: string | null }): Promise<void>;
  /** Renames or moves a folder. */
  changeFolder(accountId: string, folderId: string, change: UpdateFolder): Promise<void>;
  deleteFolder(accountId: string, folderId: string): Promise<void>;
}

/** Sending; `id` is reserved for what the call creates. */
export interface SendCommands {
  /** Resolves when the SMTP server has accepted the message. */
  sendEmail(accountId: string, caller: Caller, id: string, input: SendInput): Promise<EmailSent>;
  sendDraft(accountId: string, caller: Caller, id: string, draft: string): Promise<DraftSent>;
}

/** Drafts; `id` is reserved for what the call creates. */
export interface DraftCommands {
  /** Resolves when the draft is in Drafts. */
  createDraft(accountId: string, id: string, input: SendInput): Promise<DraftResult>;
  /** Replaces the draft `previous`, a `drf_…` or `email_…` id. */
  updateDraft(accountId: string, id: string, previous: string, input: SendInput): Promise<DraftResult>;
  deleteDraft(accountId: string, draft: string): Promise<void>;
}

/** What the API does through Temporal. Each throws ApiError with what the caller may see. */
export interface Commands extends ChangeCommands, SendCommands, DraftCommands {
  /** Logs in and connects, or reconnects, a mailbox. Returns the account's id. */
  connectMailbox(intent: AuthIntent): Promise<string>;
  /** Stops the sync and removes everything of the account; resolves when the account is no longer found. */
  removeAccount(accountId: string): Promise<void>;
  /** Compares the store with the whole mailbox; resolves after a while, whether that has ended or not. */
  verifyMailbox(accountId: string): Promise<MailboxVerification>;
  /** Parses the stored mail of an account again. */
  reparseMailbox(accountId: string): Promise<MailboxReparse>;
  /** The runs that are about an account, newest first; `after` is the `next` of the page before. */
  listRuns(
    accountId: string,
    page: { limit: number; after: string | null },
  ): Promise<{ runs: Run[]; next: string | null }>;
  /** Makes a new attempt of one delivery at once, whatever its status. */
  retryDelivery(deliveryId: string): Promise<void>;
  /** Has what waits for its next attempt at an endpoint attempted now; never rejects, as it is attempted by its schedule else. */
  attemptWaiting(endpointId: string): Promise<void>;
  /** Starts a replay that is stored; a worker does so later when Temporal is away. */
  startReplay(replay: { id: string; endpointId: string }): Promise<void>;
  /** Cancels a replay; does nothing when it has ended. */
  cancelReplay(replayId: string): Promise<void>;
}

/** What the HTTP layer is built from. */
export interface ApiDeps {
  db: Db;
  /** the pool under `db`, for the prepared statements of the hot reads */
  pool: pg.Pool;
  secrets: Secrets;
  storage: Storage;
  outbound: Outbound;
  commands: Commands;
  /** the servers of an address, as a connect finds them; within 9 s */
  findServers(address: string): Promise<Omit<MailServers, 'object' | 'address'>>;
  /** what GET /settings shows */
  installation: Omit<Settings, 'object'>;
  /** where the built pages of web/ are; absent: there are none */
  pagesDir?: string;
  /** resolves when Temporal responds, else rejects */
  pingTemporal(): Promise<void>;
  /** adds the routes below /temporal/codec, for the Temporal UI; absent: there are none */
  codecRoutes?: (app: FastifyInstance) => void;
  /** makes a span of each request */
  traceRequests?: (app: FastifyInstance) => void;
  logger: Logger;
  settings: ApiSettings;
}

export interface ApiSettings {
  /** for `servers` in the OpenAPI document, without a trailing slash */
  publicUrl: string;
  /** what the connect page shows of who asks */
  brand: { name: string; color: string | null; logoUrl: string | null };
  /** largest request body, bytes */
  bodyBytes: number;
  /** calls with wrong keys from one address; more get 429. 0: no limit */
  wrongKeysPerMinute: number;
  /** calls with one key, and from one address; more get 429. 0: no limit */
  requestsPerMinute: { key: number; address: number };
  /** limits of one email to send */
  send: SendLimits;
  /** keys for cursors and idempotency fingerprints: the first signs, all are accepted */
  signingKeys: [Buffer, ...Buffer[]];
  /** whose X-Forwarded-For is believed: nobody's, everybody's, that of a number of proxies or of some networks */
  trustProxy: boolean | number | string[];
}
