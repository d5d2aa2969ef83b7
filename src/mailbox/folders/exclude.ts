import { dateOf } from '../../db/driver/rows.ts';
import { and, eq, isNull, sql } from 'drizzle-orm';
import { newId } from '../../new-id.ts';
import { createImport } from '../../db/coordination/import-state.ts';
import { inLease, LeaseLost } from '../../db/coordination/lease.ts';
import { eraseEventsOf } from '../../db/coordination/removal.ts';
import type { Db, Tx } from '../../db/driver/client.ts';
import { recordEvents } from '../../db/outbox.ts';
import { accounts, locations } from '../../db/schema/index.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { deleteFolders, type FolderState, loadAllFolders, moveToTopLevel, readFolders } from '../store/folders.ts';
import { type AccountChoice, assertCurrent, surelyExcluded } from './choice.ts';
import { markVacating, vacateFolder } from './vacate.ts';

/** The part of a context that removes excluded folders; needs no connection. */
export type ExcludeContext = Pick<SyncContext, 'db' | 'lease' | 'storage'> & {
  account: { id: string; choice?: AccountChoice };
};

/**
 * Removes stored folders that the account no longer includes, with their mail, and those whose removal was interrupted. No event
 * reports a folder or an email that was in no other folder; earlier ones lose their content. An email that another folder
 * holds has an `email.update`. The mailbox itself does not change.
 * @param excluded ids
 * @param over whether time is up; called before each chunk of mail. Some are left then
 * @throws MailError when the account has another choice by now
 */
export async function removeExcluded(
  ctx: ExcludeContext,
  excluded: readonly string[],
  over = () => false,
): Promise<void> {
  const { db, lease, account } = ctx;
  if (excluded.length > 0) {
    await inLease(db, lease, async (tx) => {
      await assertCurrent(tx, account.id, account.choice);
      await markVacating(tx, [...excluded], 'exclusion');
    });
  }
  for (const { id } of (await loadAllFolders(db, account.id)).excluded) await removeFolder(ctx, id, over);
}

async function removeFolder(ctx: ExcludeContext, id: string, over: () => boolean): Promise<void> {
  for (let isRemoved = false; !isRemoved && !over(); ) {
    await vacateFolder(ctx, id, over);
    isRemoved = await inLease(ctx.db, ctx.lease, async (tx) => {
      if (await holdsMail(tx, id)) return false;
      await deleteFolders(tx, [id]);
      await eraseEventsOf(tx, ctx.account.id, [id]);
      const createdAt = new Date();
      const moved = await readFolders(tx, await moveToTopLevel(tx, id));
      const events = moved.map((folder) => ({
        ...{ type: 'email.folder.update' as const, objectId: folder.id },
        ...{ data: { folder }, createdAt },
      }));
      if (events.length > 0) await recordEvents(tx, ctx.account.id, events);
      return true;
    });
  }
}

/** Whether mail has arrived in the folder since it was vacated. */
async function holdsMail(tx: Tx, folderId: string): Promise<boolean> {
  const { uid } = locations;
  const there = and(eq(locations.folderId, folderId), isNull(locations.vanishedAt));
  return (await tx.select({ uid }).from(locations).where(there).limit(1)).length > 0;
}

/**
 * Queues the import of folders that a new choice has added, in the transaction that stores them: as far back as the account was
 * imported before. Their other mail is known and not stored, as that from before the connect. The maintenance starts it.
 */
export async function importAdded(tx: Tx, accountId: string, added: readonly Pick<FolderState, 'id'>[]): Promise<void> {
  if (added.length === 0) return;
  const { rows } = await tx.execute<{ is_due: boolean; since: string | null }>(sql`
    with reach as (
      select connected_at - make_interval(days => coalesce(initial_sync_days, 30)) as since
      from accounts where id = ${accountId} and initial_sync_status is not null
      union all
      select coalesce(since, '-infinity') from imports
      where account_id = ${accountId} and folders is null and until is null and status <> 'cancelled'
    )
    select count(*) > 0 as is_due, nullif(min(since), '-infinity') as since from reach`);
  const [reach] = rows;
  if (!reach?.is_due) return;
  const since = reach.since === null ? null : dateOf(reach.since);
  await createImport(tx, { id: newId('import'), accountId, since, until: null, folders: added.map(({ id }) => id) });
}

/** Records that the choice is applied: a folder that appears from now on is new. */
export async function markApplied(tx: Tx, accountId: string): Promise<void> {
  await tx.update(accounts).set({ choiceApplied: true }).where(eq(accounts.id, accountId));
}

/**
 * Removes the stored folders that accounts surely exclude whose mailbox was not reached since, or whose removal was interrupted: a
 * watch does so when it begins, with the list of the server.
 * @param over whether time is up; called before each account and each chunk of mail
 * @returns whether none is left
 */
export async function removeAllExcluded(
  { db, storage }: Pick<SyncContext, 'db' | 'storage'>,
  over: () => boolean,
): Promise<boolean> {
  for (const { id, choice } of await accountsToNarrow(db)) {
    if (over()) return false;
    const lease = { accountId: id, watchEpoch: null };
    const excluded = surelyExcluded(choice.folders, (await loadAllFolders(db, id)).folders).map((folder) => folder.id);
    await removeExcluded({ db, storage, lease, account: { id, choice } }, excluded, over).catch((error: unknown) => {
      // it is being removed, or has another choice by now
      if (!(error instanceof LeaseLost || error instanceof MailError)) throw error;
    });
  }
  return !over();
}

/** Accounts with stored folders that they may exclude, or whose removal was interrupted. */
async function accountsToNarrow(db: Db): Promise<{ id: string; choice: AccountChoice }[]> {
  const rows = await db
    .select({ id: accounts.id, folders: accounts.folderChoice })
    .from(accounts)
    .where(sql`removed_at is null and (not choice_applied or exists (
      select from folders f where f.account_id = accounts.id and f.vacating = 'exclusion'))`);
  return rows.map(({ id, folders }) => ({ id, choice: { folders, isApplied: false } }));
}
