import { keepPreviousData, useMutation, useQuery } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { Allowed, useMay } from '../../access/may.tsx';
import { api, type Delivery, take, wordsOf } from '../../api/client.ts';
import { count } from '../../ui/format.ts';
import { Empty, Listed, Page, Pager, State, Time } from '../../ui/parts.tsx';
import { useOffset } from '../../ui/query.ts';
import { toast } from '../../ui/toast.tsx';
import { WaitsFor } from '../waiting.tsx';
import { Filters, useFilters } from './filters.tsx';
import { ReplayDialog } from './replay-dialog.tsx';

const SIZE = 50;

/** The first 250 endpoints: their names, and choices. */
export function useEndpoints() {
  const { seeAll } = useMay();
  return useQuery({
    enabled: seeAll,
    queryKey: ['endpoints'],
    queryFn: () => take(api.GET('/api/v1/webhooks/endpoints', { params: { query: { limit: 250 } } })),
    refetchInterval: 5_000,
  });
}

export function DeliveriesPage() {
  const filters = useFilters();
  const [offset, setOffset] = useOffset();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [replaying, setReplaying] = useState(false);
  const endpoints = useEndpoints();
  const query = { ...filters.query, offset, limit: SIZE };
  const list = useQuery({
    queryKey: ['deliveries', query],
    queryFn: () => take(api.GET('/api/v1/webhooks/conversations', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 3_000,
  });
  const rows = list.data?.data ?? [];
  const picked = rows.filter(({ id }) => chosen.has(id));
  return (
    <Page
      title="Deliveries"
      intro="Every event, to every endpoint, for 30 days."
      actions={
        <>
          <RetryChosen deliveries={picked} choose={setChosen} />
          <Allowed to="manage">
            <button type="button" class="button" onClick={() => setReplaying(true)}>
              Replay…
            </button>
          </Allowed>
        </>
      }
    >
      <section class="card" aria-label="Log">
        <Filters {...filters} endpoints={endpoints.data?.data ?? []} />
        <Listed list={list} lines={8} empty={<Nothing filtered={Object.keys(filters.query).length > 0} />}>
          {(shown) => <Table rows={shown} chosen={chosen} choose={setChosen} />}
        </Listed>
        <Pager list={list} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {replaying && (
        <ReplayDialog query={filters.query} endpoints={endpoints.data?.data ?? []} close={() => setReplaying(false)} />
      )}
    </Page>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No delivery fits">Take a filter away, or widen the time.</Empty>;
  return (
    <Empty
      title="Nothing was delivered yet"
      action={
        <Allowed to="seeAll">
          <Link href="/endpoints" class="button">
            To the endpoints
          </Link>
        </Allowed>
      }
    >
      Create an endpoint, and send it a test event. Every call to it is listed here.
    </Empty>
  );
}

function Table({
  rows,
  chosen,
  choose,
}: {
  rows: Delivery[];
  chosen: ReadonlySet<string>;
  choose: (chosen: ReadonlySet<string>) => void;
}) {
  const all = rows.every(({ id }) => chosen.has(id));
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  return (
    <div class="table-wrap cards dense" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <Allowed to="change">
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label="All on this page"
                  checked={all}
                  onChange={() => choose(all ? new Set() : new Set(rows.map(({ id }) => id)))}
                />
              </th>
            </Allowed>
            <th scope="col">State</th>
            <th scope="col">Event</th>
            <th scope="col">Mailbox</th>
            <th scope="col">Endpoint</th>
            <th scope="col">Answer</th>
            <th scope="col">When</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <Allowed to="change">
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Choose ${row.id}`}
                    checked={chosen.has(row.id)}
                    onChange={() => toggle(row.id)}
                  />
                </td>
              </Allowed>
              <td class="first">
                <State of={row.status} />
                {row.waiting_for && (
                  <span class="sub">
                    <WaitsFor waiting={row.waiting_for} />
                  </span>
                )}
              </td>
              <td data-label="Event">
                <Link href={`/deliveries/${row.id}`} class="strong">
                  {row.event_type}
                </Link>
                {row.test && <span class="sub">test</span>}
                <AboutEmail delivery={row} />
              </td>
              <td data-label="Mailbox">
                <Link href={`/mailboxes/${row.account_id}`}>
                  <span class="clip" dir="auto">
                    {row.account_name ?? `…${row.account_id.slice(-6)}`}
                  </span>
                </Link>
              </td>
              <td data-label="Endpoint">
                <span class="clip" dir="auto" title={row.endpoint_url}>
                  {row.endpoint_name ?? row.endpoint_url}
                </span>
              </td>
              <td data-label="Answer">
                <span class="clip" dir="auto" title={row.error ?? ''}>
                  {row.http_status ?? row.error ?? '–'}
                </span>
                {row.attempts_count > 1 && <span class="sub nowrap">{count(row.attempts_count)} attempts</span>}
              </td>
              <td data-label="When">
                <Time at={row.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Sender and subject of the email that a delivery is about. */
function AboutEmail({ delivery: { email } }: { delivery: Delivery }) {
  if (!email || email.subject === null) return null;
  return (
    <span class="sub clip" title={`${email.from ?? ''}: ${email.subject}`}>
      {email.from}: {email.subject || '(no subject)'}
    </span>
  );
}

/** Makes deliveries again; those that are refused remain chosen, so that the next call is for them alone. */
function RetryChosen({
  deliveries,
  choose,
}: {
  deliveries: Delivery[];
  choose: (chosen: ReadonlySet<string>) => void;
}) {
  const retry = useMutation({
    mutationFn: (ids: readonly string[]) =>
      Promise.allSettled(
        ids.map((id) => take(api.POST('/api/v1/webhooks/conversations/{id}/retry', { params: { path: { id } } }))),
      ),
    onSuccess: (results, ids) => {
      choose(new Set(ids.filter((_, index) => results[index]?.status === 'rejected')));
      toast(outcomeOf(results));
    },
  });
  if (deliveries.length === 0) return null;
  return (
    <button
      type="button"
      class="button main-action"
      disabled={retry.isPending}
      onClick={() => retry.mutate(deliveries.map(({ id }) => id))}
    >
      Retry {deliveries.length}
    </button>
  );
}

/** How many deliveries are made again, how many are not, and the first reason. */
function outcomeOf(results: readonly PromiseSettledResult<unknown>[]): string {
  const refused = results.filter((result) => result.status === 'rejected');
  const made = results.length - refused.length;
  const text = made === 1 ? '1 delivery is made again' : `${count(made)} deliveries are made again`;
  return refused[0] ? `${text}, ${count(refused.length)} not: ${wordsOf(refused[0].reason).detail}` : text;
}
