import { type AccountDeps, createAccountActivities } from './account.ts';
import { createChangeEmailActivities, createChangeFolderActivities } from './change-mailbox.ts';
import { type ConnectDeps, createConnectActivities } from './connect.ts';
import { createDeliverActivities, type DeliverDeps } from './deliver.ts';
import { withFailures } from './failures.ts';
import { createHousekeepingActivities, type HousekeepingDeps } from './housekeeping.ts';
import { createMailboxActivities, type WatchDeps } from './mailbox.ts';
import { createRemoveActivities, type RemoveDeps } from './remove.ts';
import { createDraftActivities, type DraftDeps } from './save-draft.ts';
import { createSendActivities, type SendDeps } from './send-email.ts';
import type { MailboxDeps } from '../mailbox/with-mailbox.ts';

/** What all activities need together. */
export type ActivityDeps = AccountDeps &
  ConnectDeps &
  DeliverDeps &
  HousekeepingDeps &
  WatchDeps &
  RemoveDeps &
  Omit<DraftDeps & SendDeps, 'markDisconnected'> &
  Omit<MailboxDeps, 'markDisconnected'>;

export type Activities = ReturnType<typeof createActivities>;

/**
 * Every activity by its name, ready for a Worker. The names are part of stored histories: one that runs may need is not
 * renamed. What they throw goes through `toFailure`.
 */
export function createActivities(given: ActivityDeps) {
  const accounts = createAccountActivities(given);
  const deps = {
    ...given,
    /** commits the status with its event, and has the account's workflow let go of the mailbox */
    async markDisconnected(accountId: string, detail: string): Promise<void> {
      await accounts.setAccountStatus({ accountId, status: 'disconnected', detail });
      await accounts.startAccount({ accountId });
    },
  };
  return withFailures({
    ...accounts,
    ...createChangeEmailActivities(deps),
    ...createChangeFolderActivities(deps),
    ...createConnectActivities(deps),
    ...createDeliverActivities(deps),
    ...createHousekeepingActivities(deps),
    ...createMailboxActivities(deps),
    ...createRemoveActivities(deps),
    ...createDraftActivities(deps),
    ...createSendActivities(deps),
  });
}
