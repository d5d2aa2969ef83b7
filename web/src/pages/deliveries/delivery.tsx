import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { Allowed, useMay } from '../../access/may.tsx';
import { api, type DeliveryDetail, take } from '../../api/client.ts';
import { Copied, JsonText } from '../../ui/copy.tsx';
import { exactDate } from '../../ui/format.ts';
import { Loading, Page, Problem, State } from '../../ui/parts.tsx';
import { toast } from '../../ui/toast.tsx';
import { useInstallation, workflowUrl } from '../installation.ts';
import { WaitsFor } from '../waiting.tsx';

export function DeliveryPage({ id }: { id: string }) {
  const queries = useQueryClient();
  const key = ['delivery', id];
  const delivery = useQuery({
    queryKey: key,
    queryFn: () => take(api.GET('/api/v1/webhooks/conversations/{id}', { params: { path: { id } } })),
    refetchInterval: 3_000,
  });
  const retry = useMutation({
    mutationFn: () => take(api.POST('/api/v1/webhooks/conversations/{id}/retry', { params: { path: { id } } })),
    onSuccess: async () => {
      toast('It is being delivered again');
      await queries.invalidateQueries({ queryKey: key });
    },
  });
  const up = { href: '/deliveries', label: 'Deliveries' };
  const { data } = delivery;
  if (!data)
    return (
      <Page title="Delivery" up={up}>
        {delivery.error ? <Problem error={delivery.error} /> : <Loading lines={8} />}
      </Page>
    );
  return (
    <Page
      title={data.event_type}
      intro={`To ${data.endpoint_name ?? data.endpoint_url}`}
      up={up}
      actions={
        <Allowed to="change">
          <button
            type="button"
            class="button main-action"
            aria-keyshortcuts="r"
            disabled={retry.isPending}
            onClick={() => retry.mutate()}
          >
            Retry now
          </button>
        </Allowed>
      }
    >
      <Problem error={delivery.error ?? retry.error} />
      <Facts delivery={data} />
      <Attempts delivery={data} />
      <section class="card" aria-labelledby="payload">
        <div class="card-head">
          <h2 id="payload">Payload</h2>
        </div>
        <div class="card-body">
          <JsonText value={data.payload} label="Payload" file={data.event_id} />
        </div>
      </section>
    </Page>
  );
}

function Facts({ delivery }: { delivery: DeliveryDetail }) {
  const installation = useInstallation();
  const { seeAll } = useMay();
  const run = delivery.workflow_id ? workflowUrl(installation.data, delivery.workflow_id) : undefined;
  return (
    <section class="card pad" aria-label="State">
      <dl class="facts">
        <dt>State</dt>
        <dd class="row">
          <State of={delivery.status} />
          {delivery.waiting_for && (
            <span class="quiet">
              <WaitsFor waiting={delivery.waiting_for} />
            </span>
          )}
        </dd>
        <dt>Endpoint</dt>
        <dd class="row">
          {seeAll ? (
            <Link href={`/endpoints/${delivery.endpoint_id}`}>{delivery.endpoint_name ?? delivery.endpoint_url}</Link>
          ) : (
            <code>{delivery.endpoint_id}</code>
          )}
          {delivery.endpoint_name !== null && <Copied value={delivery.endpoint_url} label="URL" />}
        </dd>
        <dt>Mailbox</dt>
        <dd class="row">
          <Link href={`/mailboxes/${delivery.account_id}`}>{delivery.account_name ?? 'Removed'}</Link>
          <Copied value={delivery.account_id} label="Mailbox id" />
        </dd>
        {delivery.email && (
          <>
            <dt>Email</dt>
            <dd class="row">
              <Link href={`/mailboxes/${delivery.account_id}/emails/${delivery.email.id}`}>
                {delivery.email.subject === null
                  ? 'No longer stored'
                  : `${delivery.email.from ?? ''}: ${delivery.email.subject || '(no subject)'}`}
              </Link>
              <Copied value={delivery.email.id} label="Email id" />
            </dd>
          </>
        )}
        <dt>Event</dt>
        <dd class="row">
          <Copied value={delivery.event_id} label="Event id" />
          <Link href={`/deliveries?event=${delivery.event_id}`}>Its deliveries</Link>
        </dd>
        <dt>Recorded</dt>
        <dd>{exactDate(delivery.created_at)}</dd>
        <dt>Id</dt>
        <dd class="row">
          <Copied value={delivery.id} label="Delivery id" />
          {run && (
            <a href={run} target="_blank" rel="noopener noreferrer">
              Run in Temporal
            </a>
          )}
        </dd>
      </dl>
    </section>
  );
}

function Attempts({ delivery }: { delivery: DeliveryDetail }) {
  return (
    <section class="card" aria-labelledby="attempts">
      <div class="card-head">
        <h2 id="attempts">Attempts</h2>
      </div>
      {delivery.attempts.length === 0 && <p class="card-body quiet">No attempt yet.</p>}
      {delivery.attempts.length > 0 && (
        <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">
                  No.
                </th>
                <th scope="col">When</th>
                <th scope="col">Answer</th>
                <th scope="col">Body</th>
                <th scope="col" class="number">
                  Took
                </th>
              </tr>
            </thead>
            <tbody>
              {delivery.attempts.map((attempt) => (
                <tr key={attempt.number}>
                  <td class="number" data-label="No.">
                    {attempt.number}
                  </td>
                  <td class="nowrap" data-label="When">
                    {exactDate(attempt.at)}
                  </td>
                  <td data-label="Answer">
                    {attempt.http_status ?? '–'}
                    {attempt.error && <span class="sub">{attempt.error}</span>}
                  </td>
                  <td data-label="Body">
                    <code class="wrap">{attempt.response_body || '–'}</code>
                  </td>
                  <td class="number" data-label="Took">
                    {attempt.duration_ms} ms
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
