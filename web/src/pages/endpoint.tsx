import type { RefObject } from 'preact';
import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, type Endpoint, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { Copied } from '../ui/copy.tsx';
import { Confirm, Dialog } from '../ui/dialog.tsx';
import { SelectField } from '../ui/field.tsx';
import { count, exactDate } from '../ui/format.ts';
import { useLeft } from '../ui/left.ts';
import { Copyable, Loading, Notice, Page, Problem, State, Time } from '../ui/parts.tsx';
import { Plot } from '../ui/plot.tsx';
import { useShown } from '../ui/shown.ts';
import { toast } from '../ui/toast.tsx';
import { type EndpointFields, EndpointForm } from './endpoint-form.tsx';
import { EndpointState } from './endpoints.tsx';
import { EVENT_TYPES, isEventType } from './event-types.ts';
import { attemptSeries } from './overview.tsx';

type Asked = 'edit' | 'test' | 'rotate' | 'remove';

export function EndpointPage({ id }: { id: string }) {
  const isLeft = useLeft();
  const { shown, show, close } = useShown<Asked>();
  const endpoint = useQuery({
    queryKey: ['endpoint', id],
    queryFn: () => take(api.GET('/api/v1/webhooks/endpoints/{id}', { params: { path: { id } } })),
    refetchInterval: 3_000,
  });
  const up = { href: '/endpoints', label: 'Endpoints' };
  const { data } = endpoint;
  if (!data)
    return (
      <Page title="Endpoint" up={up}>
        {endpoint.error ? <Problem error={endpoint.error} /> : <Loading />}
      </Page>
    );
  return (
    <Page
      title={data.description ?? data.url}
      intro={data.description ? data.url : undefined}
      up={up}
      actions={
        <Allowed to="manage">
          <button type="button" class="button main-action" onClick={() => show('test')}>
            Send a test event
          </button>
          <button type="button" class="button" onClick={() => show('edit')}>
            Edit
          </button>
          <Enable endpoint={data} />
          <button type="button" class="button" onClick={() => show('rotate')}>
            Rotate the secret
          </button>
          <button type="button" class="button danger" onClick={() => show('remove')}>
            Delete
          </button>
        </Allowed>
      }
    >
      <Problem error={endpoint.error} />
      <Trouble endpoint={data} />
      <div class="grid-2">
        <Facts endpoint={data} />
        <SuccessRate id={id} />
      </div>
      {shown === 'edit' && <Edit endpoint={data} close={close} />}
      {shown === 'test' && <Test endpoint={data} close={close} />}
      {shown === 'rotate' && <Rotate id={id} close={close} />}
      {shown === 'remove' && <Remove endpoint={data} isLeft={isLeft} close={close} />}
    </Page>
  );
}

function Trouble({ endpoint }: { endpoint: Endpoint }) {
  if (!endpoint.enabled)
    return (
      <Notice tone="warn" title="It is disabled">
        {endpoint.disabled_reason === 'gone' && 'It responded with 410 (Gone). '}
        {endpoint.disabled_reason === 'failing' && 'No call succeeded for five days. '}
        Its events are logged as skipped. Enable it, then replay them.
      </Notice>
    );
  if (!endpoint.failing_since) return null;
  return (
    <Notice tone="bad" title="Deliveries are failing">
      Since {exactDate(endpoint.failing_since)}.{' '}
      {endpoint.breaker.until && (
        <>
          The next call is made <Time at={endpoint.breaker.until} />.{' '}
        </>
      )}
      <Link href={`/deliveries?endpoint=${endpoint.id}&outcome=failed`}>Failed attempts</Link>
      {' · '}
      <Link href={`/deliveries?endpoint=${endpoint.id}&status=pending`}>Waiting deliveries</Link>
    </Notice>
  );
}

function Facts({ endpoint }: { endpoint: Endpoint }) {
  const [shown, setShown] = useState(false);
  return (
    <section class="card pad" aria-label="Endpoint">
      <dl class="facts">
        <dt>State</dt>
        <dd>
          <EndpointState endpoint={endpoint} />
        </dd>
        <dt>URL</dt>
        <dd>
          <Copied value={endpoint.url} label="URL" />
        </dd>
        <dt>Breaker</dt>
        <dd>
          <State of={endpoint.breaker.state} />
        </dd>
        <dt>Events</dt>
        <dd>{endpoint.trigger_events.length === EVENT_TYPES.length ? 'all' : endpoint.trigger_events.join(', ')}</dd>
        <dt>Mailboxes</dt>
        <dd>{endpoint.account_ids.length === 0 ? 'all' : endpoint.account_ids.join(', ')}</dd>
        <dt>Headers</dt>
        <dd>{endpoint.headers.map(({ name }) => name).join(', ') || 'none of your own'}</dd>
        <Allowed to="manage">
          <dt>Secret</dt>
          <dd>
            {shown ? (
              <Copyable value={endpoint.secret} label="Secret" />
            ) : (
              <button type="button" class="button small" onClick={() => setShown(true)}>
                Show it
              </button>
            )}
          </dd>
        </Allowed>
        <dt>Id</dt>
        <dd>
          <Copied value={endpoint.id} label="Endpoint id" />
        </dd>
        <dt>More</dt>
        <dd>
          <Link href={`/deliveries?endpoint=${endpoint.id}`}>Deliveries</Link>
        </dd>
      </dl>
    </section>
  );
}

function SuccessRate({ id }: { id: string }) {
  const figures = useQuery({
    queryKey: ['endpoint-figures', id],
    queryFn: () => take(api.GET('/api/v1/overview', { params: { query: { period: 'hour', endpoint_id: id } } })),
    refetchInterval: 5_000,
  });
  const buckets = figures.data?.buckets ?? [];
  const succeeded = buckets.reduce((sum, bucket) => sum + bucket.attempts_ok, 0);
  const failed = buckets.reduce((sum, bucket) => sum + bucket.attempts_failed, 0);
  const rate = succeeded + failed === 0 ? undefined : Math.round((1000 * succeeded) / (succeeded + failed)) / 10;
  return (
    <section class="card" aria-labelledby="rate">
      <div class="card-head">
        <h2 id="rate">Last hour</h2>
        <span class="quiet small">
          {rate === undefined ? 'no attempts' : `${rate} % of ${count(succeeded + failed)} attempts succeeded`}
        </span>
      </div>
      <div class="card-body">
        <Problem error={figures.error} />
        {figures.data && (
          <Plot
            label="Attempts of the last hour by minute"
            stacked
            at={buckets.map(({ at }) => at)}
            series={attemptSeries(buckets)}
          />
        )}
      </div>
    </section>
  );
}

function Enable({ endpoint }: { endpoint: Endpoint }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: () =>
      take(
        api.PATCH('/api/v1/webhooks/endpoints/{id}', {
          params: { path: { id: endpoint.id } },
          body: { enabled: !endpoint.enabled },
        }),
      ),
    onSuccess: (data) => queries.setQueryData(['endpoint', endpoint.id], data),
    onError: (error) => toast(error.message),
  });
  return (
    <button type="button" class="button" disabled={change.isPending} onClick={() => change.mutate()}>
      {endpoint.enabled ? 'Disable' : 'Enable'}
    </button>
  );
}

function Edit({ endpoint, close }: { endpoint: Endpoint; close: () => void }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (body: Partial<EndpointFields>) =>
      take(api.PATCH('/api/v1/webhooks/endpoints/{id}', { params: { path: { id: endpoint.id } }, body })),
    onSuccess: (data) => {
      queries.setQueryData(['endpoint', endpoint.id], data);
      close();
    },
  });
  return (
    <EndpointForm
      endpoint={endpoint}
      title="Edit the endpoint"
      action="Save"
      busy={change.isPending}
      error={change.error}
      submit={(_, changed) => change.mutate(changed)}
      close={close}
    />
  );
}

function Test({ endpoint, close }: { endpoint: Endpoint; close: () => void }) {
  const [, navigate] = useLocation();
  const [type, setType] = useState<string>('email.new');
  const isLeft = useLeft();
  const once = useOnce();
  const send = useMutation({
    mutationFn: () => {
      const params = { path: { id: endpoint.id } };
      const body = { type: isEventType(type) ? type : ('email.new' as const) };
      return once(body, (headers) => api.POST('/api/v1/webhooks/endpoints/{id}/test', { params, headers, body }));
    },
    onSuccess: ({ id }) => {
      if (!isLeft.current) navigate(`/deliveries/${id}`);
    },
  });
  return (
    <Dialog title="Send a test event" close={close}>
      <p class="quiet">A sample goes the way of real events, marked as a test.</p>
      <SelectField
        label="Event"
        value={type}
        set={setType}
        options={EVENT_TYPES.map((value) => ({ value, label: value }))}
      />
      <Problem error={send.error} />
      <div class="dialog-foot">
        <button type="button" class="button main-action" disabled={send.isPending} onClick={() => send.mutate()}>
          Send it
        </button>
      </div>
    </Dialog>
  );
}

function Rotate({ id, close }: { id: string; close: () => void }) {
  const queries = useQueryClient();
  const once = useOnce();
  const rotate = useMutation({
    mutationFn: () => {
      const params = { path: { id } };
      return once(id, (headers) => api.POST('/api/v1/webhooks/endpoints/{id}/rotate-secret', { params, headers }));
    },
    onSuccess: (data) => queries.setQueryData(['endpoint', id], data),
  });
  if (rotate.data)
    return (
      <Dialog title="The new secret" close={close}>
        <Copyable value={rotate.data.secret} label="Secret" />
        <p class="quiet">For 24 hours calls are signed with both, in webhook-signature.</p>
      </Dialog>
    );
  return (
    <Confirm
      title="Rotate the secret?"
      action="Make a new one"
      busy={rotate.isPending}
      error={rotate.error}
      confirm={() => rotate.mutate()}
      close={close}
    >
      The header X-Email-Engine-Signature switches immediately; webhook-signature carries both for 24 hours.
    </Confirm>
  );
}

function Remove({ endpoint, isLeft, close }: { endpoint: Endpoint; isLeft: RefObject<boolean>; close: () => void }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/webhooks/endpoints/{id}', { params: { path: { id: endpoint.id } } })),
    onSuccess: async () => {
      if (!isLeft.current) navigate('/endpoints');
      await queries.invalidateQueries({ queryKey: ['endpoints'] });
    },
  });
  return (
    <Confirm
      title="Delete this endpoint?"
      action="Delete it"
      busy={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate()}
      close={close}
    >
      Events are no longer delivered to {endpoint.url}. Its log remains.
    </Confirm>
  );
}
