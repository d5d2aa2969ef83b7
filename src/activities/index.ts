import type { AccountStatus } from '../contract/account.ts';
import { type AccountDeps, createAccountActivities } from './account.ts';
import { createBatchActivities } from './change-emails.ts';
import { createChangeEmailActivities, createChangeFolderActivities } from './change-mailbox.ts';
import { type ConnectDeps, createConnectActivities } from './connect.ts';
import { createDeliverActivities, type DeliverDeps } from './deliver.ts';
import { createDeviceActivities } from './device-sign-in.ts';
import { withFailures } from './failures.ts';
import { createHousekeepingActivities, type HousekeepingDeps } from './housekeeping.ts';
import { createImportHistoryActivities } from './import-history.ts';
import { createMailboxActivities, type WatchDeps } from './mailbox.ts';
import { createReparseActivities, type ReparseDeps } from './reparse.ts';
import { createReplayActivities, type ReplayDeps } from './replay.ts';
import { createRemoveActivities, type RemoveDeps } from './remove.ts';
import { createDraftActivities, type DraftDeps } from './save-draft.ts';
import { createSendActivities, type SendDeps } from './send-email.ts';
import type { MailboxDeps } from '../mailbox/with-mailbox.ts';

/** The dependencies of all activities. */
export type ActivityDeps = AccountDeps &
  Omit<ConnectDeps, 'startAccount'> &
  DeliverDeps &
  HousekeepingDeps &
  WatchDeps &
  RemoveDeps &
  ReplayDeps &
  ReparseDeps &
  Omit<DraftDeps & SendDeps, 'markDisconnected'> &
  Omit<MailboxDeps, 'markDisconnected'>;

export type Activities = ReturnType<typeof createActivities>;

/**
 * Every activity by its name, for a Worker. Stored histories contain the names: do not rename one that a run may need. Every
 * error that they throw passes `toFailure`.
 */
export function createActivities(outerDeps: ActivityDeps) {
  const accounts = createAccountActivities(outerDeps);
  /** Commits the status with its event, and makes the account's workflow load it. */
  const mark = async (accountId: string, status: AccountStatus, detail: string) => {
    await accounts.setAccountStatus({ accountId, status, detail });
    await accounts.startAccount({ accountId });
  };
  const deps = {
    ...outerDeps,
    startAccount: accounts.startAccount,
    markDisconnected: (accountId: string, detail: string) => mark(accountId, 'disconnected', detail),
    markRunning: (accountId: string) => mark(accountId, 'running', ''),
  };
  return withFailures({
    ...accounts,
    ...createChangeEmailActivities(deps),
    ...createChangeFolderActivities(deps),
    ...createBatchActivities(deps),
    ...createConnectActivities(deps),
    ...createDeviceActivities(deps),
    ...createDeliverActivities(deps),
    ...createHousekeepingActivities(deps),
    ...createImportHistoryActivities(deps),
    ...createMailboxActivities(deps),
    ...createRemoveActivities(deps),
    ...createReplayActivities(deps),
    ...createReparseActivities(deps),
    ...createDraftActivities(deps),
    ...createSendActivities(deps),
  });
}
