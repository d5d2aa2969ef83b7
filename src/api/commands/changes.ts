import { newId } from '../../new-id.ts';
import type { MailboxChange } from '../../workflows/change-mailbox.ts';
import { changeWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { ChangeCommands } from '../deps.ts';
import { workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps, START_WITHIN_MS } from './run-workflow.ts';
import { createTurns, type Turns } from './turns.ts';

export interface ChangeCommandDeps extends RunDeps {
  /** how long callers wait, ms; for tests */
  changeDeadlineMs?: number;
}

const CHANGE_DEADLINE_MS = 40_000;
/** Changes of one mailbox under way: twice as many as it has sessions (src/imap/pool.ts), so every session has work. */
const CHANGES_AT_ONCE = 6;
const LATE = 'the change did not finish in time; it continues';
const OUTAGE = { notDone: 'nothing was changed', mayBeDone: 'the change may still be made' };

/** Commands that change a mailbox, each as a separate workflow; see src/workflows/change-mailbox.ts. */
export function createChangeCommands(deps: ChangeCommandDeps): ChangeCommands {
  const own = { ...deps, turns: createTurns(CHANGES_AT_ONCE) };
  const make = (change: MailboxChange, requestId?: string) => makeChange(own, change, requestId);
  return {
    markEmail: (accountId, emailId, seen) => make({ accountId, emailId, kind: seen ? 'read' : 'unread' }),
    moveEmail: (accountId, emailId, folderId) => make({ accountId, emailId, folderId, kind: 'move' }),
    updateEmail: (accountId, emailId, update) => make({ accountId, emailId, ...update, kind: 'update' }),
    trashEmail: (accountId, emailId) => make({ accountId, emailId, kind: 'trash' }),
    // the folder's id identifies the request too: a repeated call creates the same folder
    createFolder: (accountId, folderId, folder) =>
      make({ accountId, folderId, ...folder, kind: 'createFolder' }, 'create'),
    changeFolder: (accountId, folderId, { name, parent_id: parentId }) =>
      make({
        accountId,
        folderId,
        kind: 'changeFolder',
        ...(name === undefined ? {} : { name }),
        ...(parentId === undefined ? {} : { parentId }),
      }),
    // a call that is repeated while the first one is under way waits for the same run: two would copy the same mail to Trash
    deleteFolder: (accountId, folderId) => make({ accountId, folderId, kind: 'deleteFolder' }, 'delete'),
  };
}

async function makeChange(
  deps: ChangeCommandDeps & { turns: Turns },
  change: MailboxChange,
  requestId: string = newId('change'),
): Promise<void> {
  const { accountId, kind } = change;
  const objectId = 'emailId' in change ? change.emailId : change.folderId;
  const workflowId = changeWorkflowId(objectId, requestId);
  const summary = `${kind} ${objectId}`;
  const resourceIds = [
    objectId,
    'folderId' in change ? change.folderId : undefined,
    'parentId' in change ? change.parentId : undefined,
  ];
  try {
    await execute(deps, {
      type: kind === 'update' ? WORKFLOWS.updateEmail : WORKFLOWS.changeMailbox,
      workflowId,
      accountId,
      resourceIds,
      // the folder may be there again after a deletion
      repeats: kind === 'deleteFolder',
      args: [change, { startBy: Date.now() + START_WITHIN_MS }],
      summary,
      turn: { turns: deps.turns, key: accountId },
      deadlineMs: deps.changeDeadlineMs ?? CHANGE_DEADLINE_MS,
    });
  } catch (error) {
    throw workflowErrorToApiError(error, LATE, OUTAGE);
  }
}
