export { account } from './account.ts';
export { connectMailbox } from './connect-mailbox.ts';
export { deliverWebhooks } from './deliver-webhooks.ts';
export { housekeeping } from './housekeeping.ts';
export { initialSync } from './initial-sync.ts';
export { removeAccount } from './remove-account.ts';
