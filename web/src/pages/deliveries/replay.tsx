import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { Allowed } from '../../access/may.tsx';
import { api, take } from '../../api/client.ts';
import { count } from '../../ui/format.ts';
import { Loading, Page, Problem, State, Time } from '../../ui/parts.tsx';
import { useEndpoints } from './page.tsx';

/** One bulk replay, with live progress. */
export function ReplayPage({ id }: { id: string }) {
  const queries = useQueryClient();
  const key = ['replay', id];
  const replay = useQuery({
    queryKey: key,
    queryFn: () => take(api.GET('/api/v1/webhooks/replays/{id}', { params: { path: { id } } })),
    refetchInterval: ({ state }) => (state.data?.status === 'running' || !state.data ? 1_000 : false),
  });
  const cancel = useMutation({
    mutationFn: () => take(api.POST('/api/v1/webhooks/replays/{id}/cancel', { params: { path: { id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: key }),
  });
  const up = { href: '/deliveries', label: 'Deliveries' };
  const { data } = replay;
  if (!data)
    return (
      <Page title="Replay" up={up}>
        {replay.error ? <Problem error={replay.error} /> : <Loading />}
      </Page>
    );
  const done = data.delivered + data.failed + data.skipped;
  return (
    <Page
      title="Replay"
      up={up}
      actions={
        data.status === 'running' && (
          <Allowed to="manage">
            <button type="button" class="button danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel it
            </button>
          </Allowed>
        )
      }
    >
      <section class="card pad stack" aria-label="Progress">
        <div class="row">
          <State of={data.status} />
          <span id="replayed">
            {count(done)} of {count(data.total)} made
          </span>
        </div>
        <progress
          class="progress"
          aria-labelledby="replayed"
          max={Math.max(1, data.total)}
          value={data.total === 0 ? 1 : done}
        />
        <dl class="facts">
          <dt>Delivered</dt>
          <dd>{count(data.delivered)}</dd>
          <dt>Failed</dt>
          <dd>{count(data.failed)}</dd>
          <dt>Skipped</dt>
          <dd>{count(data.skipped)}</dd>
          <dt>Still to come</dt>
          <dd>{count(data.pending)}</dd>
          <dt>Endpoint</dt>
          <dd>
            <Link href={`/endpoints/${data.endpoint_id}`}>
              <EndpointName id={data.endpoint_id} />
            </Link>
          </dd>
          <dt>Begun</dt>
          <dd>
            <Time at={data.created_at} />
          </dd>
        </dl>
        <Problem error={cancel.error ?? replay.error} />
      </section>
    </Page>
  );
}

function EndpointName({ id }: { id: string }) {
  const endpoint = useEndpoints().data?.data.find((one) => one.id === id);
  return <>{endpoint ? (endpoint.description ?? endpoint.url) : id}</>;
}
