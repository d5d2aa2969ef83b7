import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

/** The task queues, each with a Worker of its own: watching, everything that a caller waits for, deliveries. */
export const QUEUES = { mailboxes: 'mailboxes', commands: 'commands', webhooks: 'webhooks' } as const;

/** Names of the workflow types, as the client starts them. */
export const WORKFLOWS = {
  account: 'account',
  changeMailbox: 'changeMailbox',
  connectMailbox: 'connectMailbox',
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
  replay: 'replay',
} as const;

/** Workflow ids derive from the resource: Temporal itself refuses to start one twice. */
export const accountWorkflowId = (accountId: string) => `account/${accountId}`;
export const initialSyncWorkflowId = (accountId: string) => `initial-sync/${accountId}`;
export const verifyWorkflowId = (accountId: string) => `verify/${accountId}`;
export const connectWorkflowId = (intentId: string) => `connect/${intentId}`;
/** One change of an email or a folder. */
export const changeWorkflowId = (objectId: string, requestId: string) => `change/${objectId}/${requestId}`;
export const removeWorkflowId = (accountId: string) => `remove/${accountId}`;
/** Sends an email or a draft; named after the email that the Sent copy will be. */
export const sendWorkflowId = (emailId: string) => `send/${emailId}`;
/** What remains to be done after the SMTP server took the email. */
export const finishSendWorkflowId = (emailId: string) => `send/${emailId}/finish`;
export const draftWorkflowId = (draftId: string) => `draft/${draftId}`;
export const removeDraftWorkflowId = (draftId: string) => `draft/${draftId}/remove`;
export const deleteDraftWorkflowId = (draftId: string) => `draft/${draftId}/delete`;
/** One delivery in a run of its own. */
export const deliveryWorkflowId = (deliveryId: string) => `deliver/${deliveryId}`;
/** Several deliveries of one endpoint, named after the first of them. */
export const deliveryBatchWorkflowId = (endpointId: string, firstDeliveryId: string) =>
  `deliver/${endpointId}/${firstDeliveryId}`;
/** The n-th manual retry of a delivery whose run has ended. */
export const deliveryRetryWorkflowId = (deliveryId: string, n: number) => `deliver/${deliveryId}/r${n}`;
/** A bulk replay of deliveries. */
export const replayWorkflowId = (replayId: string) => `replay/${replayId}`;
export const HOUSEKEEPING_WORKFLOW_ID = 'housekeeping';

export const SIGNALS = {
  /** deliverWebhooks: do not wait for the next attempt */
  retryNow: 'retryNow',
  /** account: new settings are stored, connect with them */
  reconnected: 'reconnected',
  /** account, from its watching activity: the mailbox is connected and being watched */
  mailboxConnected: 'mailboxConnected',
} as const;

export const UPDATES = {
  /** removeAccount: returns when the mail of the account has been deleted */
  deleted: 'deleted',
} as const;

/** Search attributes, all of type Keyword (Temporal allows ten per namespace). */
export const SEARCH_ATTRIBUTES = {
  mailAccount: 'MailAccount',
  mailStatus: 'MailStatus',
  webhookEndpoint: 'WebhookEndpoint',
  eventType: 'EventType',
} as const;

const keyword = (name: string) => defineSearchAttributeKey(name, SearchAttributeType.KEYWORD);

/** The keys of the search attributes, for starts and upserts. */
export const SEARCH_KEYS = {
  mailAccount: keyword(SEARCH_ATTRIBUTES.mailAccount),
  mailStatus: keyword(SEARCH_ATTRIBUTES.mailStatus),
  webhookEndpoint: keyword(SEARCH_ATTRIBUTES.webhookEndpoint),
  eventType: keyword(SEARCH_ATTRIBUTES.eventType),
};
