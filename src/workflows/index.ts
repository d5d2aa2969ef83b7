export { account } from './account.ts';
/** `updateEmail`: workers of earlier versions do not run changes that they do not know. */
export { changeMailbox, changeMailbox as updateEmail } from './change-mailbox.ts';
export { connectMailbox } from './connect-mailbox.ts';
export { deliverWebhooks } from './deliver-webhooks.ts';
export { housekeeping } from './housekeeping.ts';
export { initialSync } from './initial-sync.ts';
export { removeAccount } from './remove-account.ts';
export { reparse } from './reparse.ts';
export { replay } from './replay.ts';
export { deleteDraft, removeDraft, saveDraft } from './save-draft.ts';
export { verifyMailbox } from './verify-mailbox.ts';
export { finishSend, sendEmail } from './send-email.ts';
