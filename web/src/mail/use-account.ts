import { useQuery } from '@tanstack/preact-query';
import { api, take } from '../api/client.ts';

/** A mailbox; `refresh`, ms: kept up to date. */
export function useAccount(id: string, refresh?: number) {
  return useQuery({
    queryKey: ['account', id],
    queryFn: () => take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } })),
    ...(refresh === undefined ? {} : { refetchInterval: refresh }),
  });
}
