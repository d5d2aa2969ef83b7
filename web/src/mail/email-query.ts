import { queryOptions } from '@tanstack/preact-query';
import { api, take } from '../api/client.ts';

/** One whole email. */
export const emailQuery = (account: string, id: string) =>
  queryOptions({
    queryKey: ['email', account, id],
    queryFn: () =>
      take(
        api.GET('/api/v1/{account_id}/emails/{email_id}', { params: { path: { account_id: account, email_id: id } } }),
      ),
  });
