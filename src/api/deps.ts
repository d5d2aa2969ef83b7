import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import type { Permissions } from '../contract/api-key.ts';
import type { ConnectIntent, MailboxReparse, MailboxSync, MailboxVerification } from '../contract/account.ts';
import type { LoginHelp, MailServers } from '../contract/auth-link.ts';
import type { EmailUpdate } from '../workflows/change-mailbox.ts';
import type { UpdateFolder } from '../contract/folder.ts';
import type { Run } from '../contract/history.ts';
import type { AlertChannel } from '../contract/overview.ts';
import type { Settings } from '../contract/installation.ts';
import type { DraftResult, DraftSent, EmailSent, SendInput } from '../contract/sending.ts';
import type { Caller } from '../db/access/api-keys.ts';
import type { Db } from '../db/driver/client.ts';
import type { Logger } from '../runtime/logger.ts';
import type { IdentityProvider } from '../oauth/identity.ts';
import type { OutboundFetch } from '../security/outbound-fetch.ts';
import type { Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import type { Storage } from '../storage/storage.ts';
import type { SendLimits } from './send-input.ts';

/** Changes of a mailbox. Each resolves when the provider has confirmed the change and it is stored. */
export interface ChangeCommands {
  markEmail(accountId: string, emailId: string, seen: boolean): Promise<void>;
  /** Moves an email to a folder, and out of every other folder. */
  moveEmail(accountId: string, emailId: string, folderId: string): Promise<void>;
  /** Changes flags of an email, then its folder. */
  updateEmail(accountId: string, emailId: string, update: EmailUpdate): Promise<void>;
  /** Moves an email to the folder with the role TRASH; creates the folder if it is missing. */
  trashEmail(accountId: string, emailId: string): Promise<void>;
  /** Creates a folder with the given id; a repeated call with the same id creates no second folder. */
  createFolder(accountId: string, folderId: string, folder: { name: string; parentId: string | null }): Promise<void>;
  /** Renames or moves a folder. */
  changeFolder(accountId: string, folderId: string, change: UpdateFolder): Promise<void>;
  deleteFolder(accountId: string, folderId: string): Promise<void>;
}

/** Commands that send; `id` is reserved for the email that the call creates. */
export interface SendCommands {
  /** Resolves when the SMTP server has accepted the message. */
  sendEmail(accountId: string, caller: Caller, id: string, input: SendInput): Promise<EmailSent>;
  sendDraft(accountId: string, caller: Caller, id: string, draft: string): Promise<DraftSent>;
}

/** Who saves a draft, and the id that is reserved for it. */
export interface NewDraftId {
  caller: Pick<Caller, 'apiKeyId'>;
  id: string;
}

/** Commands on drafts. */
export interface DraftCommands {
  /** Resolves when the draft is in Drafts. */
  createDraft(accountId: string, made: NewDraftId, input: SendInput): Promise<DraftResult>;
  /** Replaces the draft `previous`, a `drf_…` or `email_…` id. */
  updateDraft(accountId: string, made: NewDraftId, previous: string, input: SendInput): Promise<DraftResult>;
  deleteDraft(accountId: string, draft: string): Promise<void>;
}

/** Commands that the API runs through Temporal. Each throws an ApiError that callers may see. */
export interface Commands extends ChangeCommands, SendCommands, DraftCommands {
  /** Logs in and connects, or reconnects, a mailbox. Returns the account's id. */
  connectMailbox(intent: ConnectIntent): Promise<string>;
  /** Waits for the owner who signs in on another device, then connects the mailbox. Resolves when that has begun. */
  connectByDevice(signInId: string, intervalS: number): Promise<void>;
  /** Stops the sync and removes everything of the account; resolves when routes no longer find the account. */
  removeAccount(accountId: string): Promise<void>;
  /** Compares the store with the whole mailbox; resolves with the state so far when it takes long. */
  verifyMailbox(accountId: string): Promise<MailboxVerification>;
  /** Brings the store in sync with the mailbox; resolves with the state so far when it takes long. */
  syncMailbox(accountId: string): Promise<MailboxSync>;
  /** Makes a change of the settings of an account take effect. */
  reloadAccount(accountId: string): Promise<void>;
  /** Reparses the stored mail of an account; resolves with the state so far when it takes long. */
  reparseMailbox(accountId: string): Promise<MailboxReparse>;
  /** Lists the workflow executions of an account, newest first; `after` is `next` of the previous page. */
  listRuns(
    accountId: string,
    page: { limit: number; after: string | null },
  ): Promise<{ runs: Run[]; next: string | null }>;
  /** Attempts one delivery immediately, regardless of its status. */
  retryDelivery(deliveryId: string): Promise<void>;
  /** Attempts the waiting deliveries of an endpoint now. Never rejects: their schedule is the fallback. */
  attemptWaiting(endpointId: string): Promise<void>;
  /** Starts a stored batch; a worker starts it later if Temporal is unavailable. */
  startBatch(batch: { id: string; accountId: string }): Promise<void>;
  /** Starts a stored replay; a worker starts it later if Temporal is unavailable. */
  startReplay(replay: { id: string; endpointId: string }): Promise<void>;
  /** Makes the workflow of an import read its stored state; starts it if it does not run. */
  wakeImport(ref: { id: string; accountId: string }): Promise<void>;
  /** Cancels a replay; does nothing when it has finished. */
  cancelReplay(replayId: string): Promise<void>;
}

/** The identity provider, and the groups whose members get each permission. */
export interface PersonSignIn {
  provider: IdentityProvider;
  groups: Record<Permissions, readonly string[]>;
}

/** Dependencies of the HTTP layer. */
export interface ApiDeps {
  db: Db;
  /** the pool under `db`, for the prepared statements of the hot reads */
  pool: pg.Pool;
  secrets: Secrets;
  storage: Storage;
  outbound: Outbound;
  /** calls authorization servers of OAuth 2.0 */
  fetch: OutboundFetch;
  commands: Commands;
  /** finds the servers that a connect would use for an address; within 9 s */
  findServers(address: string): Promise<Omit<MailServers, 'object' | 'address'>>;
  /** what logins on an IMAP host take */
  helpFor(host: string): LoginHelp;
  /** sign-in of people at an identity provider; absent: they sign in with keys */
  signIn?: PersonSignIn;
  /** response of GET /settings */
  installation: Omit<Settings, 'object'>;
  /** folder of the built pages of web/; absent: no pages are served */
  pagesDir?: string;
  /** folder of the built site of docs/; it may be empty or missing until that is built */
  docsDir: string;
  /** resolves when Temporal responds, else rejects */
  pingTemporal(): Promise<void>;
  /** adds the routes below /temporal/codec, for the Temporal UI; absent: the codec is disabled */
  codecRoutes?: (app: FastifyInstance) => void;
  /** records a span per request */
  traceRequests?: (app: FastifyInstance) => void;
  logger: Logger;
  settings: ApiSettings;
}

export interface ApiSettings {
  /** for `servers` in the OpenAPI document, without a trailing slash */
  publicUrl: string;
  /** name, colour and logo on the connect page */
  brand: { name: string; color: string | null; logoUrl: string | null };
  /** largest request body, bytes */
  bodyBytes: number;
  /** bytes of the unexpired uploads of one key */
  uploadedBytes: number;
  /** calls with wrong keys from one address before it gets 429; 0: no limit */
  wrongKeysPerMinute: number;
  /** calls with one key, and from one address, before they get 429; 0: no limit */
  requestsPerMinute: { key: number; address: number };
  /** limits of one email to send */
  send: SendLimits;
  /** alerts that are set */
  alerts: { channels: readonly AlertChannel[]; backlog: number };
  /** keys for cursors and idempotency fingerprints: the first signs, all are accepted */
  signingKeys: [Buffer, ...Buffer[]];
  /** the API listens on loopback only */
  isLocal: boolean;
  /** trusted sources of X-Forwarded-For: none, all, a number of proxies, or some networks */
  trustProxy: boolean | number | string[];
}
