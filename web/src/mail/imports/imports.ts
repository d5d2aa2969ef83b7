import { useQuery } from '@tanstack/preact-query';
import { type Account, api, type Import, take } from '../../api/client.ts';

/** Imports that are listed. */
const SHOWN = 20;
/** The most that one call lists. */
const MOST = 100;
const UNDER_WAY: readonly Import['status'][] = ['queued', 'running', 'waiting'];

export const isUnderWay = ({ status }: Import) => UNDER_WAY.includes(status);
export const isUnfinished = (run: Import) => isUnderWay(run) || run.status === 'paused';

/** The imports of a mailbox, newest first; often refreshed while one is under way. */
export function useImports(account: string) {
  return useQuery({
    queryKey: ['imports', account],
    queryFn: () =>
      take(api.GET('/api/v1/accounts/{id}/imports', { params: { path: { id: account }, query: { limit: SHOWN } } })),
    refetchInterval: ({ state }) => (state.data?.data.some(isUnderWay) ? 1_000 : 15_000),
  });
}

/** Imports of these mailboxes that have not ended; often refreshed while one is under way. */
export function useUnfinished(accounts: readonly Account[]) {
  const account_ids = accounts.map(({ id }) => id).join();
  return useQuery({
    queryKey: ['imports', 'unfinished', account_ids],
    queryFn: () =>
      take(api.GET('/api/v1/imports', { params: { query: { account_ids, unfinished: true, limit: MOST } } })),
    enabled: accounts.length > 0,
    refetchInterval: ({ state }) => (state.data?.data.some(isUnderWay) ? 3_000 : 60_000),
  });
}

/** How much of an import is read, 0 to 1; undefined: not counted yet. */
export function shareOf({ status, progress: { messages_known: known, messages_done: done } }: Import) {
  if (status === 'completed') return 1;
  return known === 0 ? undefined : done / known;
}

/** What of a mailbox is being imported; undefined: nothing. `share`: how much, where it is known. */
export function importing(
  sync: Account['initial_sync'] | undefined,
  imports: readonly Import[] | undefined,
): { share: number | undefined } | undefined {
  if (sync?.status === 'pending' || sync?.status === 'running') return { share: undefined };
  const run = imports?.find(({ status }) => status === 'running') ?? imports?.find(isUnderWay);
  return run && { share: shareOf(run) };
}

export const percent = (share: number) => `${Math.floor(share * 100)} %`;
