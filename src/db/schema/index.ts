/*
 * Who owns what:
 *   accounts 1─n folders 1─n locations n─1 emails 1─1 email_contents, email_search; emails 1─n attachments
 *   accounts 1─n imports 1─n import_folders
 *   accounts 1─n events 1─n deliveries n─1 webhook_endpoints; deliveries 1─n delivery_attempts,
 *   1─1 pending_deliveries as long as they are pending
 *
 * `emails` holds what changes (folders' side: locations); `email_contents` and `email_search` are written once. A
 * location is one UID in one folder. Its email_id is null for baseline mail that was not imported: with a location, a
 * later move of it is not new mail.
 *
 * Rows of an account are deleted in steps by the removeAccount workflow, hence no cascades from accounts.
 */

export * from './access.ts';
export * from './accounts.ts';
export * from './alerts.ts';
export * from './batches.ts';
export * from './emails.ts';
export * from './folders.ts';
export * from './imports.ts';
export * from './installation.ts';
export * from './oauth.ts';
export * from './sending.ts';
export * from './webhooks.ts';
