import { createBatch } from '../../../src/db/queries/batches.ts';
import type { ApiUnderTest } from './api-under-test.ts';
import { createImport } from '../../../src/db/coordination/import-state.ts';
import { newId } from '../../../src/new-id.ts';
import { storeEmail, storeFolder } from '../assert/rows.ts';
import { storeAccount } from './stored-account.ts';

/** A route of the OpenAPI document; the path is relative to /api/v1, with its parameters in braces. */
export interface Route {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
}

/** All routes of the API. */
export function routesOf({ app }: ApiUnderTest): Route[] {
  const { paths = {} } = app.swagger() as { paths?: Record<string, object> };
  return Object.entries(paths)
    .filter(([path]) => path.startsWith('/api/v1/'))
    .flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({
        method: method.toUpperCase() as Route['method'],
        path: path.replace('/api/v1', ''),
      })),
    );
}

/** Stores an account with one of each resource in paths; returns the ids by parameter name. */
export async function furnish({ database, storage }: ApiUnderTest): Promise<Record<string, string>> {
  const account = await storeAccount(database);
  const folder = await storeFolder(database, account, { role: 'INBOX' });
  const files = [{ name: 'a.txt', mime: 'text/plain', size: 1 }];
  const email = await storeEmail(database, account, { folders: [folder], attachments: files });
  const draft = await storeEmail(database, account, { draft: true });
  const batch = newId('batch');
  await createBatch(database.db, { id: batch, accountId: account, change: { trash: true }, emailIds: [email.id] });
  await storage.put(email.storageKey, Buffer.from('x'));
  await storage.put(`${account}/att/${email.attachmentIds[0]}`, Buffer.from('x'));
  const older = newId('import');
  await createImport(database.db, { id: older, accountId: account, since: null, until: null, folders: null });
  return {
    account_id: account,
    folder_id: folder,
    email_id: email.id,
    attachment_id: email.attachmentIds[0] as string,
    thread_id: email.threadId,
    draft_id: draft.draftId as string,
    import_id: older,
    batch_id: batch,
  };
}

/** The path with its parameters replaced. */
export function fill(path: string, values: Record<string, string>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (values[name] === undefined) throw new Error(`this test does not know what ${name} is`);
    return values[name];
  });
}

/** Required bodies, by method and path. */
const BODIES: Record<string, (ids: Record<string, string>) => unknown> = {
  'PATCH /accounts/{id}': () => ({ metadata: {} }),
  'POST /{account_id}/emails/{email_id}/modify': ({ folder_id }) => ({ folders_ids: [folder_id] }),
  'PATCH /{account_id}/emails/{email_id}': () => ({ is_starred: true, keywords: { add: ['x'] } }),
  'POST /{account_id}/emails/batch': ({ email_id }) => ({ ids: [email_id], change: { is_starred: true } }),
  'POST /{account_id}/folders': () => ({ name: 'New' }),
  'PATCH /{account_id}/folders/{folder_id}': () => ({ name: 'Newer' }),
  'POST /{account_id}/emails/send': () => ({ to: [{ email: 'bob@example.test' }], subject: 'x' }),
  'POST /{account_id}/drafts': () => ({ subject: 'x' }),
  'PATCH /{account_id}/drafts/{draft_id}': () => ({ subject: 'x' }),
};

/** The options of a call of a route: its body, if it needs one. */
export function bodyOf({ method, path }: Route, ids: Record<string, string>): { body?: unknown } {
  const body = BODIES[`${method} ${path}`]?.(ids);
  return body === undefined ? {} : { body };
}
