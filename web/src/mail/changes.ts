import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { api, type Email, take } from '../api/client.ts';
import type { paths } from '../api/schema.d.ts';

type CreateBatch = NonNullable<
  paths['/api/v1/{account_id}/emails/batch']['post']['requestBody']
>['content']['application/json'];

/** A change of one email or of many. */
export type Change = CreateBatch['change'];
/** The emails of a change: their ids, or the filter that chooses them. */
export type Chosen = Pick<CreateBatch, 'ids' | 'filter'>;

/** Emails that one change can choose. */
export const MOST_EMAILS = 10_000;

/** What makes the lists and pages of a mailbox show what was changed. */
export function useMailChanged(): (account: string) => Promise<unknown> {
  const queries = useQueryClient();
  return (account) =>
    Promise.all(
      ['emails', 'threads', 'thread', 'folders', 'email', 'history', 'search'].map((name) =>
        queries.invalidateQueries({ queryKey: name === 'search' || name === 'history' ? [name] : [name, account] }),
      ),
    );
}

/** Changes one email. */
export function useChange({ account_id, id }: Pick<Email, 'account_id' | 'id'>) {
  const changed = useMailChanged();
  const params = { path: { account_id, email_id: id } };
  return useMutation({
    mutationFn: async ({ trash, ...change }: Change): Promise<unknown> =>
      trash
        ? take(api.DELETE('/api/v1/{account_id}/emails/{email_id}', { params }))
        : take(api.PATCH('/api/v1/{account_id}/emails/{email_id}', { params, body: change })),
    onSuccess: () => changed(account_id),
  });
}

/** Keywords that mail programs and servers set for themselves. */
const SILENT = /^(\$(forwarded|mdnsent|junk|notjunk|phishing|submitted|submitpending|has\w+)|junk|nonjunk|notjunk)$/;

/** The keywords that people set. */
export const labelsOf = ({ keywords = [] }: Pick<Email, 'keywords'>) => keywords.filter((one) => !SILENT.test(one));
