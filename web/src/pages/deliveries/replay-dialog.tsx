import { useMutation, useQuery } from '@tanstack/preact-query';
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { api, type Schemas, take } from '../../api/client.ts';
import { useOnce } from '../../api/once.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { SelectField } from '../../ui/field.tsx';
import { count, exactDate } from '../../ui/format.ts';
import { useLeft } from '../../ui/left.ts';
import { Notice, Problem } from '../../ui/parts.tsx';
import { given } from '../../ui/query.ts';
import { type DeliveryFilters, endpointOptions } from './filters.tsx';

const REPLAYED = ['failed', 'skipped', 'delivered'] as const;

/** Replays all deliveries that match the filters, at the pace of the endpoint: it shows the filters and their count first. */
export function ReplayDialog({
  query,
  endpoints,
  close,
}: {
  query: DeliveryFilters;
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
  const once = useOnce();
  const isLeft = useLeft();
  const begin = useMutation({
    mutationFn: () => once(body, (headers) => api.POST('/api/v1/webhooks/replays', { headers, body })),
    onSuccess: ({ id }) => {
      if (!isLeft.current) navigate(`/replays/${id}`);
    },
  });
  const total = matching.data?.total;
  const name = endpointOptions(endpoints, endpoint).find(({ value }) => value === endpoint)?.label;
  return (
    <Dialog title="Replay deliveries" close={close}>
      {endpoints.length === 0 && <Notice tone="warn" title="No endpoints" />}
      <SelectField label="Endpoint" value={endpoint} set={setEndpoint} options={endpointOptions(endpoints, endpoint)} />
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
function FilterFacts({ query }: { query: DeliveryFilters }) {
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
