import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { api, type Overview, take } from '../api/client.ts';
import { Choice } from '../ui/choice.tsx';
import { useEvents } from '../ui/events.ts';
import { count } from '../ui/format.ts';
import { Loading, Page, Problem, Time } from '../ui/parts.tsx';
import { Plot, type Series } from '../ui/plot.tsx';
import { useParam } from '../ui/query.ts';
import { AlertsCard } from './alerts.tsx';
import { Problems } from './problems.tsx';

/** Shortest interval between refreshes that events cause, ms. */
const ASK_MS = 2_000;

const PERIODS = [
  { value: 'hour', label: 'Last hour' },
  { value: 'day', label: 'Last day' },
];

export function OverviewPage() {
  const [period, setPeriod] = useParam('period', 'hour');
  const queries = useQueryClient();
  const asked = useRef(0);
  const overview = useQuery({
    queryKey: ['overview', period],
    queryFn: () =>
      take(api.GET('/api/v1/overview', { params: { query: { period: period === 'day' ? 'day' : 'hour' } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const isLive = useEvents('', () => {
    if (Date.now() - asked.current < ASK_MS) return;
    asked.current = Date.now();
    setTimeout(() => void queries.invalidateQueries({ queryKey: ['overview'] }), ASK_MS);
  });
  const { data } = overview;
  return (
    <Page
      title="Overview"
      intro={<span class={`live ${isLive ? 'on' : ''}`}>{isLive ? 'Live' : 'Connecting …'}</span>}
      actions={<Choice label="Period" options={PERIODS} value={period} set={setPeriod} />}
    >
      <Problem error={overview.error} retry={() => void overview.refetch()} />
      {!data && !overview.error && <Placeholder />}
      {data && (
        <>
          <Figures overview={data} />
          <Problems overview={data} />
          <div class="grid-2">
            <MailPlot overview={data} />
            <AttemptPlot overview={data} />
          </div>
          <AlertsCard alerts={data.alerts} />
        </>
      )}
    </Page>
  );
}

/** Has the size of the loaded content, to avoid layout shifts. */
function Placeholder() {
  return (
    <>
      <div class="grid-stats">
        {[1, 2, 3, 4].map((each) => (
          <div class="card stat" key={each}>
            <span class="label">&nbsp;</span>
            <span class="figure">–</span>
            <span class="small">&nbsp;</span>
          </div>
        ))}
      </div>
      <div class="card">
        <Loading lines={6} />
      </div>
    </>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const { accounts, endpoints, deliveries, buckets } = overview;
  const sum = (key: 'received' | 'sent') => buckets.reduce((total, bucket) => total + bucket[key], 0);
  const troubled = accounts.errored + accounts.disconnected;
  return (
    <div class="grid-stats">
      <Link href="/mailboxes" class="card stat">
        <span class="label">Mailboxes</span>
        <span class="figure">{count(accounts.total)}</span>
        <span class="small quiet">
          {troubled > 0
            ? `${count(troubled)} not connected`
            : accounts.importing > 0
              ? `${count(accounts.importing)} importing`
              : 'all connected'}
        </span>
      </Link>
      <div class="card stat">
        <span class="label">Mail in</span>
        <span class="figure">{count(sum('received'))}</span>
        <span class="small quiet">{count(sum('sent'))} sent by the API</span>
      </div>
      <Link href="/deliveries?status=pending" class="card stat">
        <span class="label">Deliveries waiting</span>
        <span class="figure">{count(deliveries.pending)}</span>
        <span class="small quiet">
          {deliveries.oldest_pending_at ? (
            <>
              oldest <Time at={deliveries.oldest_pending_at} />
            </>
          ) : (
            'nothing waiting'
          )}
        </span>
      </Link>
      <Link href="/endpoints" class="card stat">
        <span class="label">Endpoints</span>
        <span class="figure">{count(endpoints.total)}</span>
        <span class="small quiet">
          {endpoints.failing > 0
            ? `${count(endpoints.failing)} failing`
            : endpoints.disabled > 0
              ? `${count(endpoints.disabled)} disabled`
              : 'all healthy'}
        </span>
      </Link>
    </div>
  );
}

/** Values of a bucket, per minute. */
function perMinute({ buckets, bucket_seconds: seconds }: Overview, key: 'received' | 'sent'): number[] {
  return buckets.map((bucket) => (bucket[key] * 60) / seconds);
}

function MailPlot({ overview }: { overview: Overview }) {
  return (
    <PlotCard
      title="Mail per minute"
      overview={overview}
      series={[
        { name: 'In', color: '1', values: perMinute(overview, 'received') },
        { name: 'Out', color: '2', values: perMinute(overview, 'sent') },
      ]}
    />
  );
}

function AttemptPlot({ overview }: { overview: Overview }) {
  return (
    <PlotCard
      title="Webhook attempts by outcome"
      overview={overview}
      stacked
      series={attemptSeries(overview.buckets)}
      more={
        <Link href="/deliveries?outcome=failed" class="small">
          Failed attempts
        </Link>
      }
    />
  );
}

/** The attempts of each bucket: what receivers answer now, long before a delivery fails for good. */
export function attemptSeries(buckets: Overview['buckets']): Series[] {
  return [
    { name: 'Succeeded', color: 'good', values: buckets.map((bucket) => bucket.attempts_ok) },
    { name: 'Failed', color: 'bad', values: buckets.map((bucket) => bucket.attempts_failed) },
  ];
}

function PlotCard({
  title,
  overview,
  more,
  ...plot
}: {
  title: string;
  overview: Overview;
  series: Series[];
  stacked?: boolean;
  more?: ComponentChildren;
}) {
  return (
    <section class="card" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        {more}
      </div>
      <div class="card-body">
        <Plot label={title} at={overview.buckets.map(({ at }) => at)} {...plot} />
      </div>
    </section>
  );
}
