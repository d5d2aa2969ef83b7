import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, type Endpoint, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { clockOf } from '../ui/format.ts';
import { useLeft } from '../ui/left.ts';
import { Empty, Listed, Page, Pager, State, Time } from '../ui/parts.tsx';
import { useOffset } from '../ui/query.ts';
import { type EndpointFields, EndpointForm } from './endpoint-form.tsx';
import { EVENT_TYPES } from './event-types.ts';

const SIZE = 50;

export function EndpointsPage() {
  const [offset, setOffset] = useOffset();
  const query = { offset, limit: SIZE };
  const endpoints = useQuery({
    queryKey: ['endpoints', query],
    queryFn: () => take(api.GET('/api/v1/webhooks/endpoints', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 5_000,
  });
  const [creating, setCreating] = useState(false);
  const create = (
    <Allowed to="manage">
      <button type="button" class="button main-action" onClick={() => setCreating(true)}>
        Create an endpoint
      </button>
    </Allowed>
  );
  return (
    <Page title="Endpoints" intro="Where events are delivered to." actions={create}>
      <section class="card" aria-label="Endpoints">
        <Listed
          list={endpoints}
          empty={
            offset > 0 ? (
              <Empty title="No more endpoints">Go back to the previous page.</Empty>
            ) : (
              <None create={create} />
            )
          }
        >
          {(rows) => <Table rows={rows} />}
        </Listed>
        <Pager list={endpoints} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {creating && <Create close={() => setCreating(false)} />}
    </Page>
  );
}

function None({ create }: { create: ComponentChildren }) {
  return (
    <Empty title="No endpoints yet" action={create}>
      An endpoint is a URL of yours. New mail and every change of it is sent there, signed, and repeated until it is
      taken.
    </Empty>
  );
}

/** Readable state of an endpoint. */
export function EndpointState({ endpoint }: { endpoint: Endpoint }) {
  if (!endpoint.enabled) return <State of="disabled" />;
  const { state, until } = endpoint.breaker;
  if (state === 'open')
    return <State of="open" label={until ? `failing, paused until ${clockOf(new Date(until))}` : 'failing, paused'} />;
  if (state === 'half_open') return <State of="half_open" label="being tried" />;
  if (endpoint.failing_since) return <State of="errored" label="failing" />;
  return <State of="enabled" />;
}

function Table({ rows }: { rows: Endpoint[] }) {
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Endpoint</th>
            <th scope="col">State</th>
            <th scope="col">Events</th>
            <th scope="col">Mailboxes</th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((endpoint) => (
            <tr key={endpoint.id}>
              <td>
                <Link href={`/endpoints/${endpoint.id}`} class="strong">
                  <span class="clip" dir="auto">
                    {endpoint.description ?? endpoint.url}
                  </span>
                </Link>
                {endpoint.description && <span class="sub">{endpoint.url}</span>}
              </td>
              <td class="first">
                <EndpointState endpoint={endpoint} />
                {endpoint.failing_since && (
                  <span class="sub">
                    failing since <Time at={endpoint.failing_since} />
                  </span>
                )}
              </td>
              <td data-label="Events">
                {endpoint.trigger_events.length === EVENT_TYPES.length
                  ? 'all'
                  : endpoint.trigger_events.length === 1
                    ? endpoint.trigger_events[0]
                    : `${endpoint.trigger_events.length} types`}
              </td>
              <td data-label="Mailboxes">{endpoint.account_ids.length === 0 ? 'all' : endpoint.account_ids.length}</td>
              <td data-label="Created">
                <Time at={endpoint.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Create({ close }: { close: () => void }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const once = useOnce();
  const isLeft = useLeft();
  const create = useMutation({
    mutationFn: (body: EndpointFields) =>
      once(body, (headers) => api.POST('/api/v1/webhooks/endpoints', { headers, body })),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['endpoints'] });
      if (!isLeft.current) navigate(`/endpoints/${id}`);
    },
  });
  return (
    <EndpointForm
      title="Create an endpoint"
      action="Create it"
      busy={create.isPending}
      error={create.error}
      submit={(fields) => create.mutate(fields)}
      close={close}
    />
  );
}
