export { account } from './account.ts';
export { changeMailbox } from './change-mailbox.ts';
export { connectMailbox } from './connect-mailbox.ts';
export { deliverWebhooks } from './deliver-webhooks.ts';
export { housekeeping } from './housekeeping.ts';
export { initialSync } from './initial-sync.ts';
export { removeAccount } from './remove-account.ts';
export { deleteDraft, removeDraft, saveDraft } from './save-draft.ts';
export { finishSend, sendEmail } from './send-email.ts';
