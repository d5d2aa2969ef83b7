import type pg from 'pg';
import type { AuthIntent } from '../contract/account.ts';
import type { Db } from '../db/client.ts';
import type { Logger } from '../logger.ts';
import type { Outbound } from '../outbound.ts';
import type { Secrets } from '../secrets.ts';
import type { Storage } from '../storage.ts';

/** What the API has Temporal do. Each throws ApiError with what the caller may see. */
export interface Commands {
  /** Logs in and connects, or reconnects, a mailbox; the account's id. */
  connectMailbox(intent: AuthIntent): Promise<string>;
  /** Stops the sync and removes everything of the account; answers when the account is no longer found. */
  removeAccount(accountId: string): Promise<void>;
  /** A new try of one delivery at once, whatever its status. */
  retryDelivery(deliveryId: string): Promise<void>;
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
  /** resolves when Temporal answers, else rejects */
  pingTemporal(): Promise<void>;
  logger: Logger;
  settings: ApiSettings;
}

export interface ApiSettings {
  /** for `servers` in the OpenAPI document, without a trailing slash */
  publicUrl: string;
  /** largest request body, bytes */
  bodyBytes: number;
  /** keys that cursors and idempotency fingerprints are made with: the first signs, all are accepted */
  signingKeys: [Buffer, ...Buffer[]];
}
