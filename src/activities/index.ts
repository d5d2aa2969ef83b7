import { type AccountDeps, createAccountActivities } from './account.ts';
import { createChangeFolderActivities } from './change-folder.ts';
import { createChangeEmailActivities } from './change-mailbox.ts';
import { type ConnectDeps, createConnectActivities } from './connect.ts';
import { createDeliverActivities, type DeliverDeps } from './deliver.ts';
import { withFailures } from './failures.ts';
import { createHousekeepingActivities, type HousekeepingDeps } from './housekeeping.ts';
import { createMailboxActivities, type MailboxDeps } from './mailbox.ts';
import { createRemoveActivities, type RemoveDeps } from './remove.ts';
import { createDraftActivities, type DraftDeps } from './save-draft.ts';
import { createSendActivities, type SendDeps } from './send-email.ts';
import type { WriteDeps } from './write-context.ts';

/** What all activities need together. */
export type ActivityDeps = AccountDeps &
  ConnectDeps &
  DeliverDeps &
  HousekeepingDeps &
  MailboxDeps &
  RemoveDeps &
  DraftDeps &
  SendDeps &
  WriteDeps;

export type Activities = ReturnType<typeof createActivities>;

/**
 * Every activity by its name, ready for a Worker. The names are part of stored histories: one that runs may need is not
 * renamed. What they throw goes through `toFailure`.
 */
export function createActivities(deps: ActivityDeps) {
  return withFailures({
    ...createAccountActivities(deps),
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
