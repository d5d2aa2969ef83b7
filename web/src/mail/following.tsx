import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { Allowed } from '../access/may.tsx';
import { type Account, api, take } from '../api/client.ts';
import { Problem } from '../ui/parts.tsx';
import { toast } from '../ui/toast.tsx';

/** Whether a mailbox is followed, with the buttons that change it and sync it once. */
export function Following({ account: { id, watch: isFollowed } }: { account: Account }) {
  const queries = useQueryClient();
  const params = { path: { id } };
  const reload = () => queries.invalidateQueries({ queryKey: ['account', id] });
  const follow = useMutation({
    mutationFn: (watch: boolean) => take(api.PATCH('/api/v1/accounts/{id}', { params, body: { watch } })),
    onSuccess: reload,
  });
  const sync = useMutation({
    mutationFn: () => take(api.POST('/api/v1/accounts/{id}/sync', { params })),
    onSuccess: async ({ status }) => {
      await reload();
      toast(status === 'completed' ? 'The mailbox is in sync' : 'The sync takes longer, and continues');
    },
  });
  return (
    <>
      <div class="row">
        {isFollowed ? 'all the time' : 'only when asked'}
        <Allowed to="change">
          {!isFollowed && (
            <button type="button" class="button small" disabled={sync.isPending} onClick={() => sync.mutate()}>
              {sync.isPending ? 'One moment …' : 'Sync now'}
            </button>
          )}
          <button
            type="button"
            class="button small"
            disabled={follow.isPending}
            onClick={() => follow.mutate(!isFollowed)}
          >
            {isFollowed ? 'Stop following' : 'Follow it'}
          </button>
        </Allowed>
      </div>
      <Problem error={follow.error ?? sync.error} />
    </>
  );
}
