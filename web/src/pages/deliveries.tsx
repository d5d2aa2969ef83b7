import { keepPreviousData, useMutation, useQuery } from '@tanstack/preact-query';
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { api, type Delivery, type Schemas, take } from '../api/client.ts';
import { Dialog } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { count, exactDate } from '../ui/format.ts';
import { Empty, Listed, Notice, Page, Pager, Problem, State, Time } from '../ui/parts.tsx';
import { given, isoOf, useOffset, useParam } from '../ui/query.ts';
import { toast } from '../ui/toast.tsx';
import { EVENT_TYPES, isEventType } from './event-types.ts';
import { WaitsFor } from './waiting.tsx';

const SIZE = 50;
const STATUSES = ['pending', 'delivered', 'failed', 'skipped'] as const;
const OUTCOMES = ['succeeded', 'failed'] as const;

/** All filters of the log, from the query of the page's URL. */
function useFilters() {
  const [status, setStatus] = useParam('status');
  const [outcome, setOutcome] = useParam('outcome');
  const [endpoint, setEndpoint] = useParam('endpoint');
  const [type, setType] = useParam('type');
  const [account, setAccount] = useParam('account');
  const [email, setEmail] = useParam('email');
  const [event, setEvent] = useParam('event');
  const [since, setSince] = useParam('since');
  const [until, setUntil] = useParam('until');
  const query = given({
    status: STATUSES.find((one) => one === status),
    last_outcome: OUTCOMES.find((one) => one === outcome),
    endpoint_id: endpoint.trim(),
    event_type: isEventType(type) ? type : undefined,
    account_id: account.trim(),
    email_id: email.trim(),
    event_id: event.trim(),
    since: isoOf(since),
    until: isoOf(until),
  });
  return {
    query,
    values: { status, outcome, endpoint, type, account, email, event, since, until },
    set: { setStatus, setOutcome, setEndpoint, setType, setAccount, setEmail, setEvent, setSince, setUntil },
  };
}

export function useEndpoints() {
  return useQuery({
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
          <RetryChosen deliveries={picked} done={() => setChosen(new Set())} />
          <button type="button" class="button" onClick={() => setReplaying(true)}>
            Replay…
          </button>
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

function Filters({
  values,
  set,
  endpoints,
}: Omit<ReturnType<typeof useFilters>, 'query'> & { endpoints: Schemas['WebhookEndpoint'][] }) {
  return (
    <div class="filters" role="search">
      <SelectField
        label="State"
        value={values.status}
        set={set.setStatus}
        options={[{ value: '', label: 'All states' }, ...STATUSES]}
      />
      <SelectField
        label="Last attempt"
        value={values.outcome}
        set={set.setOutcome}
        options={[{ value: '', label: 'Any outcome' }, ...OUTCOMES]}
      />
      <SelectField
        label="Endpoint"
        value={values.endpoint}
        set={set.setEndpoint}
        options={[
          { value: '', label: 'All endpoints' },
          ...endpoints.map(({ id, url, description }) => ({ value: id, label: description ?? url })),
        ]}
      />
      <SelectField
        label="Event"
        value={values.type}
        set={set.setType}
        options={[{ value: '', label: 'All events' }, ...EVENT_TYPES.map((value) => ({ value, label: value }))]}
      />
      <TextField label="Mailbox" placeholder="acc_…" value={values.account} set={set.setAccount} />
      <TextField label="Email" placeholder="email_…" value={values.email} set={set.setEmail} />
      <TextField label="Event id" placeholder="evt_…" value={values.event} set={set.setEvent} />
      <TextField label="From" type="datetime-local" value={values.since} set={set.setSince} />
      <TextField label="Until" type="datetime-local" value={values.until} set={set.setUntil} />
    </div>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No delivery fits">Take a filter away, or widen the time.</Empty>;
  return (
    <Empty
      title="Nothing was delivered yet"
      action={
        <Link href="/endpoints" class="button">
          To the endpoints
        </Link>
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
    <div class="table-wrap" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">
              <input
                type="checkbox"
                aria-label="All on this page"
                checked={all}
                onChange={() => choose(all ? new Set() : new Set(rows.map(({ id }) => id)))}
              />
            </th>
            <th scope="col">State</th>
            <th scope="col">Event</th>
            <th scope="col">Endpoint</th>
            <th scope="col" class="number">
              Attempts
            </th>
            <th scope="col">Answer</th>
            <th scope="col">When</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`Choose ${row.id}`}
                  checked={chosen.has(row.id)}
                  onChange={() => toggle(row.id)}
                />
              </td>
              <td>
                <State of={row.status} />
                {row.waiting_for && (
                  <span class="sub">
                    <WaitsFor waiting={row.waiting_for} />
                  </span>
                )}
              </td>
              <td>
                <Link href={`/deliveries/${row.id}`} class="strong">
                  {row.event_type}
                </Link>
                {row.test && <span class="sub">test</span>}
              </td>
              <td>
                <span class="clip" title={row.endpoint_url}>
                  {row.endpoint_url}
                </span>
              </td>
              <td class="number">{row.attempts_count}</td>
              <td>
                <span class="clip" title={row.error ?? ''}>
                  {row.http_status ?? row.error ?? '–'}
                </span>
              </td>
              <td>
                <Time at={row.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RetryChosen({ deliveries, done }: { deliveries: Delivery[]; done: () => void }) {
  const retry = useMutation({
    mutationFn: () =>
      Promise.all(
        deliveries.map(({ id }) =>
          take(api.POST('/api/v1/webhooks/conversations/{id}/retry', { params: { path: { id } } })),
        ),
      ),
    onSuccess: (all) => {
      toast(all.length === 1 ? '1 delivery is made again' : `${all.length} deliveries are made again`);
      done();
    },
    onError: (error) => toast(`Not all could be made again: ${error.message}`),
  });
  if (deliveries.length === 0) return null;
  return (
    <button type="button" class="button main-action" disabled={retry.isPending} onClick={() => retry.mutate()}>
      Retry {deliveries.length}
    </button>
  );
}

const REPLAYED = ['failed', 'skipped', 'delivered'] as const;

/** Replays all deliveries that match the filters, at the pace of the endpoint: it shows the filters and their count first. */
function ReplayDialog({
  query,
  endpoints,
  close,
}: {
  query: ReturnType<typeof useFilters>['query'];
  endpoints: Schemas['WebhookEndpoint'][];
  close: () => void;
}) {
  const [, navigate] = useLocation();
  const enabled = endpoints.filter((one) => one.enabled);
  const [endpoint, setEndpoint] = useState(query.endpoint_id ?? enabled[0]?.id ?? '');
  const [status, setStatus] = useState<string>(REPLAYED.find((one) => one === query.status) ?? 'failed');
  const { event_type: type, account_id: account, status: _, endpoint_id: __, ...same } = query;
  const body = {
    endpoint_id: endpoint,
    ...same,
    ...given({ status: REPLAYED.find((one) => one === status) }),
    ...(type ? { trigger_events: [type] } : {}),
    ...(account ? { account_ids: [account] } : {}),
  };
  const matching = useQuery({
    queryKey: ['replay-count', body],
    queryFn: () => take(api.POST('/api/v1/webhooks/replays/count', { body })),
    enabled: endpoint !== '',
  });
  const begin = useMutation({
    mutationFn: () => take(api.POST('/api/v1/webhooks/replays', { body })),
    onSuccess: ({ id }) => navigate(`/replays/${id}`),
  });
  const total = matching.data?.total;
  const chosen = endpoints.find(({ id }) => id === endpoint);
  const name = chosen && (chosen.description ?? chosen.url);
  return (
    <Dialog title="Replay deliveries" close={close}>
      {endpoints.length === 0 && <Notice tone="warn" title="No endpoints" />}
      <SelectField
        label="Endpoint"
        value={endpoint}
        set={setEndpoint}
        options={endpoints.map(({ id, url, description }) => ({ value: id, label: description ?? url }))}
      />
      <SelectField
        label="State"
        value={status}
        set={setStatus}
        options={[...REPLAYED, { value: '', label: 'all but pending' }]}
      />
      <FilterFacts query={query} />
      <p aria-live="polite">{total !== undefined && wordsOf(total, name ?? '')}</p>
      <Problem error={matching.error ?? begin.error} />
      <div class="dialog-foot">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class="button main-action"
          disabled={begin.isPending || !total}
          onClick={() => begin.mutate()}
        >
          Begin the replay
        </button>
      </div>
    </Dialog>
  );
}

function wordsOf(total: number, endpoint: string): string {
  if (total === 0) return 'No delivery matches.';
  return `Sends ${total === 1 ? '1 delivery' : `${count(total)} deliveries`} to ${endpoint} again. Live events go first.`;
}

const FILTER_NAMES = {
  last_outcome: 'Last attempt',
  event_type: 'Event',
  account_id: 'Mailbox',
  email_id: 'Email',
  event_id: 'Event id',
  since: 'From',
  until: 'Until',
} as const;

/** The filters of the log that a replay takes over. */
function FilterFacts({ query }: { query: ReturnType<typeof useFilters>['query'] }) {
  const names = Object.keys(FILTER_NAMES) as (keyof typeof FILTER_NAMES)[];
  const set = names.filter((name) => query[name] !== undefined);
  if (set.length === 0) return null;
  return (
    <dl class="facts">
      {set.map((name) => (
        <Fragment key={name}>
          <dt>{FILTER_NAMES[name]}</dt>
          <dd>
            {name === 'since' || name === 'until' ? (
              exactDate(query[name] ?? '')
            ) : (
              <code class="wrap">{query[name]}</code>
            )}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}
