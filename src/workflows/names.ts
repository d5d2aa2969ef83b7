import { defineSearchAttributeKey, type SearchAttributePair, SearchAttributeType } from '@temporalio/common';

/**
 * The task queues, each with its own Worker: watching, calls that a caller waits for, sends (which wait for SMTP servers),
 * deliveries, and work that may take hours.
 */
export const QUEUES = {
  mailboxes: 'mailboxes',
  commands: 'commands',
  sends: 'sends',
  webhooks: 'webhooks',
  background: 'background',
} as const;

/** Names of the workflow types. */
export const WORKFLOWS = {
  account: 'account',
  changeMailbox: 'changeMailbox',
  updateEmail: 'updateEmail',
  changeEmails: 'changeEmails',
  connectMailbox: 'connectMailbox',
  connectByDevice: 'connectByDevice',
  initialSync: 'initialSync',
  removeAccount: 'removeAccount',
  deliverWebhooks: 'deliverWebhooks',
  housekeeping: 'housekeeping',
  sendEmail: 'sendEmail',
  finishSend: 'finishSend',
  saveDraft: 'saveDraft',
  deleteDraft: 'deleteDraft',
  removeDraft: 'removeDraft',
  verifyMailbox: 'verifyMailbox',
  syncMailbox: 'syncMailbox',
  replay: 'replay',
  reparse: 'reparse',
  importHistory: 'importHistory',
} as const;

/** Workflow ids derive from the resource: Temporal refuses to start one twice. */
export const accountWorkflowId = (accountId: string) => `account/${accountId}`;
export const initialSyncWorkflowId = (accountId: string) => `initial-sync/${accountId}`;
export const verifyWorkflowId = (accountId: string) => `verify/${accountId}`;
export const syncWorkflowId = (accountId: string) => `sync/${accountId}`;
/** Reparses the stored mail of an account: all of it, or only emails whose parsing was cut short. */
export const reparseWorkflowId = (accountId: string, only?: 'incomplete') =>
  `reparse/${accountId}${only ? `/${only}` : ''}`;
/** Waits for an owner who signs in on another device, then connects the mailbox. */
export const deviceWorkflowId = (signInId: string) => `device/${signInId}`;
export const connectWorkflowId = (intentId: string) => `connect/${intentId}`;
/** One change of an email or a folder. */
export const changeWorkflowId = (objectId: string, requestId: string) => `change/${objectId}/${requestId}`;
/** A change of many emails. */
export const batchWorkflowId = (batchId: string) => `batch/${batchId}`;
export const removeWorkflowId = (accountId: string) => `remove/${accountId}`;
/** Sends an email or a draft; named after the email id that the Sent copy will get. */
export const sendWorkflowId = (emailId: string) => `send/${emailId}`;
/** Finishes a send after the SMTP server accepted the message. */
export const finishSendWorkflowId = (emailId: string) => `send/${emailId}/finish`;
export const draftWorkflowId = (draftId: string) => `draft/${draftId}`;
export const removeDraftWorkflowId = (draftId: string) => `draft/${draftId}/remove`;
export const deleteDraftWorkflowId = (draftId: string) => `draft/${draftId}/delete`;
/** One delivery in its own run; `runs`: how many it had before. */
export const deliveryWorkflowId = (deliveryId: string, runs = 0) => `deliver/${deliveryId}${again(runs)}`;
/** Several deliveries of one endpoint, named after the first of them; `runs`: how many that one had before. */
export const deliveryBatchWorkflowId = (endpointId: string, firstDeliveryId: string, runs = 0) =>
  `deliver/${endpointId}/${firstDeliveryId}${again(runs)}`;
const again = (runs: number) => (runs === 0 ? '' : `/r${runs}`);
/** A bulk replay of deliveries. */
export const replayWorkflowId = (replayId: string) => `replay/${replayId}`;
/** An import of older mail. */
export const importHistoryWorkflowId = (importId: string) => `import/${importId}`;
export const HOUSEKEEPING_WORKFLOW_ID = 'housekeeping';

/**
 * The ids of runs that derive from the account's id. Runs named after another object (changes, sends, drafts, connects) are
 * found by the search attribute `MailAccount`, which Temporal shows some time after the start.
 */
export const accountRunIds = (accountId: string): string[] => [
  initialSyncWorkflowId(accountId),
  verifyWorkflowId(accountId),
  syncWorkflowId(accountId),
  reparseWorkflowId(accountId),
  reparseWorkflowId(accountId, 'incomplete'),
  accountWorkflowId(accountId),
];

/** Types of runs that the removal of an account does not end: itself, and deliveries, which it waits for. */
export const OUTLIVES_ACCOUNT: readonly string[] = [WORKFLOWS.removeAccount, WORKFLOWS.deliverWebhooks];

/** Temporal has repeated the same workflow task so often: the workers cannot continue its history. */
const STUCK_ATTEMPTS = 3;

/** Whether a run that Temporal describes as open is stuck: its workflow tasks keep failing. */
export function isStuck(run: { raw: { pendingWorkflowTask?: { attempt?: number | null } | null } }): boolean {
  return (run.raw.pendingWorkflowTask?.attempt ?? 0) >= STUCK_ATTEMPTS;
}

/** The prefix of workflow ids, for each type. */
export const ID_PREFIXES: Readonly<Record<string, string>> = {
  [WORKFLOWS.account]: 'account/',
  [WORKFLOWS.changeMailbox]: 'change/',
  [WORKFLOWS.updateEmail]: 'change/',
  [WORKFLOWS.changeEmails]: 'batch/',
  [WORKFLOWS.connectMailbox]: 'connect/',
  [WORKFLOWS.connectByDevice]: 'device/',
  [WORKFLOWS.initialSync]: 'initial-sync/',
  [WORKFLOWS.removeAccount]: 'remove/',
  [WORKFLOWS.deliverWebhooks]: 'deliver/',
  [WORKFLOWS.housekeeping]: HOUSEKEEPING_WORKFLOW_ID,
  [WORKFLOWS.sendEmail]: 'send/',
  [WORKFLOWS.finishSend]: 'send/',
  [WORKFLOWS.saveDraft]: 'draft/',
  [WORKFLOWS.deleteDraft]: 'draft/',
  [WORKFLOWS.removeDraft]: 'draft/',
  [WORKFLOWS.verifyMailbox]: 'verify/',
  [WORKFLOWS.syncMailbox]: 'sync/',
  [WORKFLOWS.replay]: 'replay/',
  [WORKFLOWS.reparse]: 'reparse/',
  [WORKFLOWS.importHistory]: 'import/',
};

/** Whether a workflow of that type may have that id: an input is sealed for an id, and with it for the type. */
export function isIdOfType(workflowId: string, workflowType: string): boolean {
  const prefix = ID_PREFIXES[workflowType];
  return prefix !== undefined && workflowId.startsWith(prefix);
}

/** Replaces a payload that was not sealed by this installation: src/temporal/codec.ts, interceptors.ts. */
export const UNSEALED = { unsealed: true };
export const isUnsealed = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && (input as Partial<typeof UNSEALED>).unsealed === true;

/** The type of the failure of a run or an activity that refused such a payload. */
export const UNSEALED_TYPE = 'Unsealed';

export const SIGNALS = {
  /** deliverWebhooks: do not wait for the next attempt */
  retryNow: 'retryNow',
  /** account: new settings are stored, load them */
  reconnected: 'reconnected',
  /** account, from its watching activity: the mailbox is connected and being watched */
  mailboxConnected: 'mailboxConnected',
  /** importHistory: a call has changed the state of the import */
  importChanged: 'importChanged',
  /** account: the worker that watches the mailbox is lost */
  watchLost: 'watchLost',
  /** syncMailbox: another call wants what has changed since the present pass began */
  syncWanted: 'syncWanted',
} as const;

export const UPDATES = {
  /** removeAccount: returns when the mail of the account has been deleted */
  deleted: 'deleted',
} as const;

/** The header and the memo with the id of the API call that started a run. */
export const REQUEST_ID_HEADER = 'request-id';
export const REQUEST_ID_MEMO = 'requestId';
/** The header of the SDK's interceptors for OpenTelemetry. */
export const TRACE_HEADER = '_tracer-data';

export const QUERIES = {
  /** every workflow: its current state; see src/workflows/run-state.ts */
  state: 'state',
} as const;

/** Search attributes: all Keywords except the last (Temporal allows ten Keywords and three KeywordLists per namespace). */
export const SEARCH_ATTRIBUTES = {
  mailAccount: 'MailAccount',
  mailStatus: 'MailStatus',
  webhookEndpoint: 'WebhookEndpoint',
  eventType: 'EventType',
  /** KeywordList: the ids that the run is about, `acc_…`, `email_…`, `drf_…`, `fld_…`, and `whc_…`, `evt_…` as far as they fit */
  resourceIds: 'ResourceIds',
} as const;

/** The type of a search attribute, as Temporal's command line names it. */
export function searchAttributeType(name: string): 'Keyword' | 'KeywordList' {
  return name === SEARCH_ATTRIBUTES.resourceIds ? 'KeywordList' : 'Keyword';
}

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);

/** The keys of the search attributes, for starts and upserts. */
export const SEARCH_KEYS = {
  mailAccount: keyword(SEARCH_ATTRIBUTES.mailAccount),
  mailStatus: keyword(SEARCH_ATTRIBUTES.mailStatus),
  webhookEndpoint: keyword(SEARCH_ATTRIBUTES.webhookEndpoint),
  eventType: keyword(SEARCH_ATTRIBUTES.eventType),
  resourceIds: defineSearchAttributeKey(SEARCH_ATTRIBUTES.resourceIds, SearchAttributeType.KEYWORD_LIST),
};

/** Temporal refuses a larger value: `limit.searchAttributesSizeOfValueLimit` of its dynamic configuration, bytes of JSON. */
const MAX_VALUE_BYTES = 2048;

/**
 * Search attributes by which a run is found: its account and each of these ids. Omits unknown ids, and the last ones beyond
 * Temporal's limit: about 57.
 */
export function searchableBy(
  accountId: string | undefined,
  ids: readonly (string | null | undefined)[] = [],
): SearchAttributePair[] {
  const all: string[] = [];
  let bytes = 2;
  for (const id of new Set([accountId, ...ids])) {
    // quotes and comma
    bytes += (id?.length ?? 0) + 3;
    if (id && bytes <= MAX_VALUE_BYTES) all.push(id);
  }
  return [
    ...(accountId === undefined ? [] : [{ key: SEARCH_KEYS.mailAccount, value: accountId }]),
    ...(all.length === 0 ? [] : [{ key: SEARCH_KEYS.resourceIds, value: all }]),
  ];
}

/** The type and the start options of the workflow of a batch that is stored as running. */
export function batchStart({ id, accountId }: { id: string; accountId: string }) {
  const options = {
    workflowId: batchWorkflowId(id),
    taskQueue: QUEUES.commands,
    args: [{ accountId, batchId: id }],
    typedSearchAttributes: searchableBy(accountId, [id]),
    staticSummary: `change the emails of ${id}`,
  };
  return [WORKFLOWS.changeEmails, options] as [string, typeof options];
}
