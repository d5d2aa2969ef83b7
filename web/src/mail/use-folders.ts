import { useQuery } from '@tanstack/preact-query';
import { api, take } from '../api/client.ts';
import { REFRESH_MS } from './list.tsx';

export function useFolders(account: string) {
  return useQuery({
    queryKey: ['folders', account],
    queryFn: () => take(api.GET('/api/v1/{account_id}/folders', { params: { path: { account_id: account } } })),
    refetchInterval: REFRESH_MS,
  });
}
