import { and, eq, getTableColumns, gt, ilike, isNotNull, isNull, not, or, type SQL, sql } from 'drizzle-orm';
import type { Account, AccountStatus, Encryption, InitialSyncStatus, ServerSettings } from '../../contract/account.ts';
import type { FolderChoice } from '../../contract/mailbox-config.ts';
import { inSyncUntil, notInSyncDetail } from './account-health.ts';
import { failingAppOf, toAccount } from './account-object.ts';
import type { Queryable, Tx } from '../driver/client.ts';
import { announceLease } from '../coordination/lease.ts';
import { deleteTokens } from '../coordination/oauth-tokens.ts';
import { anyOf } from '../driver/any-of.ts';
import { accounts } from '../schema/index.ts';

/** An account that is being removed counts as not existing. */
const present = isNull(accounts.removedAt);

/** The columns that an Account shows, and more. */
const SHOWN = { ...getTableColumns(accounts), failingApp: failingAppOf };

/** Reads an account; undefined when it does not exist. */
export async function getAccount(db: Queryable, id: string): Promise<Account | undefined> {
  const [row] = await db
    .select(SHOWN)
    .from(accounts)
    .where(and(eq(accounts.id, id), present));
  return row && toAccount(row);
}

/** A page of accounts, oldest first. `search` is any part of the name or the id; `ids`: of these only. */
export async function listAccounts(
  db: Queryable,
  query: {
    status?: AccountStatus;
    search?: string;
    ids?: readonly string[] | undefined;
    offset: number;
    limit: number;
  },
): Promise<{ data: Account[]; hasMore: boolean }> {
  const conditions: (SQL | undefined)[] = [present];
  if (query.ids) conditions.push(anyOf(accounts.id, query.ids));
  if (query.status !== undefined) conditions.push(eq(accounts.status, query.status));
  if (query.search !== undefined) {
    const pattern = `%${query.search.replace(/[\\%_]/g, '\\$&')}%`;
    conditions.push(or(ilike(accounts.name, pattern), ilike(accounts.id, pattern)));
  }
  const rows = await db
    .select(SHOWN)
    .from(accounts)
    .where(and(...conditions))
    .orderBy(accounts.createdAt, accounts.id)
    .offset(query.offset)
    .limit(query.limit + 1);
  return { data: rows.slice(0, query.limit).map(toAccount), hasMore: rows.length > query.limit };
}

/** What a caller may change of an account; what is left out stays. */
export interface AccountChange {
  /** replaces the entire map */
  metadata?: Record<string, string>;
  /** null: mail is stored as long as it is in the mailbox */
  retentionDays?: number | null;
  /** see src/mime/authentication/judge.ts */
  authservId?: string | null;
  /** null: all folders are stored */
  folderChoice?: FolderChoice | null;
  /** false: no connection is held open */
  watch?: boolean;
}

/**
 * Changes an account; undefined when it does not exist. With other folders, its watch begins again; with another `watch`, it
 * ends. Runs in a transaction where one of them is given.
 */
export async function changeAccount(db: Queryable, id: string, change: AccountChange): Promise<Account | undefined> {
  const { folderChoice, watch } = change;
  const [row] = await db
    .update(accounts)
    // a statement that sets nothing is refused
    .set({
      ...{ id, ...change },
      ...(watch === undefined ? {} : watching(watch)),
      ...(folderChoice === undefined ? {} : choosing(folderChoice)),
    })
    .where(and(eq(accounts.id, id), present))
    .returning(SHOWN);
  if (row && (folderChoice !== undefined || watch !== undefined)) await announceLease(db, id);
  return row && toAccount(row);
}

/** The columns that say whether it is watched; where that changes, its watch can no longer write. */
function watching(watch: boolean) {
  const changes = sql`${accounts.watch} <> ${watch}`;
  return {
    watch,
    followedSince: sql`case when ${changes} then now() else ${accounts.followedSince} end`,
    watchFailure: sql`case when ${changes} then '' else ${accounts.watchFailure} end`,
    watchEpoch: sql`${accounts.watchEpoch} + (${changes})::int`,
  };
}

/**
 * The columns that choose folders; the watch with the earlier choice can no longer write. The same choice again stays applied:
 * a folder that appeared since is new, and its mail is reported.
 */
function choosing(folderChoice: FolderChoice | null) {
  const given = sql`${folderChoice && JSON.stringify(folderChoice)}::jsonb`;
  return {
    folderChoice,
    choiceApplied: sql`${accounts.choiceApplied} and ${accounts.folderChoice} is not distinct from ${given}`,
    watchEpoch: sql`${accounts.watchEpoch} + 1`,
  };
}

/** Which of these ids are accounts. */
export async function knownAccountIds(db: Queryable, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(anyOf(accounts.id, ids), present));
  return new Set(rows.map(({ id }) => id));
}

/** What the last connect of an account did; undefined when its event is no longer stored. */
export async function lastConnect(
  db: Queryable,
  accountId: string,
): Promise<'account.add' | 'account.reconnect' | undefined> {
  const { rows } = await db.execute<{ type: 'account.add' | 'account.reconnect' }>(sql`
    select type from events where object_id = ${accountId} and type in ('account.add', 'account.reconnect') and not test
    order by sequence desc limit 1`);
  return rows[0]?.type;
}

/** The id of the account that was connected first, if any. */
export async function firstAccountId(db: Queryable): Promise<string | undefined> {
  const [row] = await db.select({ id: accounts.id }).from(accounts).where(present).orderBy(accounts.id).limit(1);
  return row?.id;
}

/** A page of account ids in order, after `after`, including accounts whose removal has not ended. */
export async function accountIdsAfter(
  db: Queryable,
  after: string,
  limit: number,
): Promise<{ id: string; removed: boolean }[]> {
  const rows = await db
    .select({ id: accounts.id, removedAt: accounts.removedAt })
    .from(accounts)
    .where(sql`${accounts.id} > ${after}`)
    .orderBy(accounts.id)
    .limit(limit);
  return rows.map(({ id, removedAt }) => ({ id, removed: removedAt !== null }));
}

/** What a connect needs of an existing account. */
export interface StoredConnection {
  id: string;
  userId: string;
  mailboxKey: string;
  imap: ServerSettings;
  smtp: ServerSettings;
  /** see src/mailbox/settings.ts */
  credentials: Buffer;
}

/** The results of a connect to store. */
export interface NewConnection {
  mailboxKey: string;
  imap: ServerSettings;
  smtp: ServerSettings;
  credentials: Buffer;
}

/** The key that identifies a mailbox: IMAP host and user. */
export function mailboxKeyOf(imap: { host: string; user: string }): string {
  return `${imap.host}|${imap.user}`.toLowerCase();
}

/** Finds the account with that id or mailbox, or all with that login address. */
export async function findConnections(
  db: Queryable,
  by: { id: string } | { mailboxKey: string } | { userId: string },
): Promise<StoredConnection[]> {
  const same =
    'id' in by
      ? eq(accounts.id, by.id)
      : 'mailboxKey' in by
        ? eq(accounts.mailboxKey, by.mailboxKey)
        : eq(accounts.userId, by.userId);
  const rows = await db.select().from(accounts).where(and(same, present));
  return rows.map((row) => ({
    id: row.id,
    userId: row.userId,
    mailboxKey: row.mailboxKey,
    imap: { host: row.imapHost, port: row.imapPort, user: row.imapUser, encryption: row.imapEncryption as Encryption },
    smtp: { host: row.smtpHost, port: row.smtpPort, user: row.smtpUser, encryption: row.smtpEncryption as Encryption },
    credentials: row.credentials,
  }));
}

/** What a connect says of an account beside its connection; undefined: the default, or as before. */
export interface StoredConfig {
  folderChoice?: FolderChoice | null | undefined;
  watch?: boolean | undefined;
  retentionDays?: number | null | undefined;
}

/** Saves a new account; undefined when its mailbox is connected already. */
export async function insertAccount(
  tx: Tx,
  account: NewConnection & {
    id: string;
    userId: string;
    name: string;
    initialSyncDays: number | null;
    at: Date;
  } & StoredConfig,
): Promise<Account | undefined> {
  const [row] = await tx
    .insert(accounts)
    .values({
      ...columnsOf(account),
      id: account.id,
      userId: account.userId,
      name: account.name,
      createdAt: account.at,
      connectedAt: account.at,
      initialSyncStatus: account.initialSyncDays === null ? null : 'pending',
      initialSyncDays: account.initialSyncDays,
      folderChoice: account.folderChoice ?? null,
      watch: account.watch ?? true,
      retentionDays: account.retentionDays ?? null,
    })
    .onConflictDoNothing()
    .returning();
  return row && toAccount(row);
}

/**
 * Gives an account new settings and the status `running`; the watch with the old settings can no longer write.
 * `initialSyncDays` starts the initial sync if none was started yet, or it failed. Undefined: the account does not exist.
 */
export async function updateConnection(
  tx: Tx,
  id: string,
  change: NewConnection & {
    name: string | undefined;
    initialSyncDays: number | null;
  } & StoredConfig,
): Promise<{ account: Account; previous: AccountStatus } | undefined> {
  const [before] = await tx
    .select()
    .from(accounts)
    .where(and(eq(accounts.id, id), present))
    .for('no key update');
  if (!before) return undefined;
  const wanted = change.initialSyncDays !== null;
  const restart = wanted && (before.initialSyncStatus === null || before.initialSyncStatus === 'failed');
  const [row] = await tx
    .update(accounts)
    .set({
      ...columnsOf(change),
      ...(change.name === undefined ? {} : { name: change.name }),
      ...(restart ? { ...INITIAL_SYNC_PENDING, initialSyncDays: change.initialSyncDays } : {}),
      ...(change.folderChoice === undefined ? {} : choosing(change.folderChoice)),
      ...(change.watch === undefined ? {} : { watch: change.watch }),
      ...(change.retentionDays === undefined ? {} : { retentionDays: change.retentionDays }),
      status: 'running',
      statusDetail: '',
      followedSince: sql`now()`,
      notInSyncSince: null,
      watchFailure: '',
      watchEpoch: sql`${accounts.watchEpoch} + 1`,
    })
    .where(eq(accounts.id, id))
    .returning();
  await announceLease(tx, id);
  return row && { account: toAccount(row), previous: before.status as AccountStatus };
}

const INITIAL_SYNC_PENDING = {
  initialSyncStatus: 'pending',
  initialSyncStartedAt: null,
  initialSyncCompletedAt: null,
} as const;

function columnsOf({ mailboxKey, imap, smtp, credentials }: NewConnection) {
  return {
    mailboxKey,
    imapHost: imap.host,
    imapPort: imap.port,
    imapUser: imap.user,
    imapEncryption: imap.encryption,
    smtpHost: smtp.host,
    smtpPort: smtp.port,
    smtpUser: smtp.user,
    smtpEncryption: smtp.encryption,
    credentials,
  };
}

/**
 * Changes the status; the stored detail of `errored` includes since when. Undefined when nothing changed: the account
 * does not exist, already has that status, or was taken over since the watch of `watchEpoch`.
 */
export async function changeStatus(
  tx: Tx,
  id: string,
  change: { status: AccountStatus; detail: string; watchEpoch?: number },
): Promise<{ previous: AccountStatus; detail: string } | undefined> {
  const { status, watchEpoch } = accounts;
  const [before] = await tx
    .select({ status, watchEpoch, since: inSyncUntil })
    .from(accounts)
    .where(and(eq(accounts.id, id), present))
    .for('no key update');
  if (!before || before.status === change.status) return undefined;
  if (change.watchEpoch !== undefined && before.watchEpoch !== change.watchEpoch) return undefined;
  const detail = change.status === 'errored' ? notInSyncDetail(before.since, change.detail) : change.detail;
  await tx.update(accounts).set({ status: change.status, statusDetail: detail }).where(eq(accounts.id, id));
  return { previous: before.status as AccountStatus, detail };
}

/** Reports that a running account is not in sync; its status, or undefined when that is reported already or has changed. */
export async function markNotInSync(
  tx: Tx,
  id: string,
  since: Date,
  detail: string,
): Promise<AccountStatus | undefined> {
  const [row] = await tx
    .update(accounts)
    .set({ notInSyncSince: since, statusDetail: detail })
    .where(and(eq(accounts.id, id), present, eq(accounts.status, 'running'), isNull(accounts.notInSyncSince)))
    .returning({ status: accounts.status });
  return row?.status as AccountStatus | undefined;
}

/** Accounts that one transaction unmarks: each stays locked until all their events are recorded. */
export const UNMARKED_AT_ONCE = 100;

/**
 * Unmarks accounts that are in sync again, or no longer watched, at most UNMARKED_AT_ONCE; those that another transaction has
 * locked are left for the next call.
 */
export async function markInSyncAgain(tx: Tx): Promise<{ id: string; status: AccountStatus }[]> {
  const some = tx
    .select({ id: accounts.id })
    .from(accounts)
    .where(
      and(
        present,
        isNotNull(accounts.notInSyncSince),
        or(not(accounts.watch), gt(accounts.lastSyncedAt, accounts.notInSyncSince)),
      ),
    )
    .limit(UNMARKED_AT_ONCE)
    .for('no key update', { skipLocked: true });
  const rows = await tx
    .update(accounts)
    .set({
      notInSyncSince: null,
      statusDetail: sql`case when ${accounts.status} = 'running' then '' else ${accounts.statusDetail} end`,
    })
    .where(sql`${accounts.id} = any(array(${some}))`)
    .returning({ id: accounts.id, status: accounts.status });
  return rows.map(({ id, status }) => ({ id, status: status as AccountStatus }));
}

/** Changes the state of the initial sync if it is one of `from`; returns the changed account, else undefined. */
export async function changeInitialSync(
  tx: Tx,
  id: string,
  change: { from: InitialSyncStatus[]; to: InitialSyncStatus; at: Date },
): Promise<Account | undefined> {
  const [row] = await tx
    .update(accounts)
    .set({
      initialSyncStatus: change.to,
      ...(change.to === 'running' ? { initialSyncStartedAt: change.at } : {}),
      ...(change.to === 'completed' ? { initialSyncCompletedAt: change.at } : {}),
    })
    .where(and(eq(accounts.id, id), present, anyOf(accounts.initialSyncStatus, change.from)))
    .returning();
  return row && toAccount(row);
}

/** Begins the removal: the account is no longer found, its credentials are deleted, its watch can no longer write. */
export async function markRemoved(tx: Tx, id: string, at: Date): Promise<Account | undefined> {
  const [row] = await tx
    .update(accounts)
    .set({ removedAt: at, credentials: Buffer.alloc(0), dataKey: null, watchEpoch: sql`${accounts.watchEpoch} + 1` })
    .where(and(eq(accounts.id, id), present))
    .returning();
  if (row) await deleteTokens(tx, id);
  if (row) await announceLease(tx, id);
  return row && toAccount(row);
}
