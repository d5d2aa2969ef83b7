import { useQuery } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { api, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Empty, Listed, Page, State, Time } from '../ui/parts.tsx';
import { useMay } from './may.tsx';
import { MailboxLink, StateDetail } from '../pages/mailbox-parts.tsx';

/** Most rows of a table. */
const SHOWN = 20;

/** The first page of a key that sees some mailboxes only: those, and the calls about them that failed. */
export function OwnOverviewPage() {
  const { change } = useMay();
  return (
    <Page
      title="Overview"
      intro={change ? 'The mailboxes that you may see.' : 'The mailboxes that you may see; you may change nothing.'}
    >
      <OwnMailboxes />
      <FailedCalls />
    </Page>
  );
}

function OwnMailboxes() {
  const list = useQuery({
    queryKey: ['accounts', { limit: SHOWN }],
    queryFn: () => take(api.GET('/api/v1/accounts', { params: { query: { limit: SHOWN } } })),
    refetchInterval: 10_000,
  });
  return (
    <section class="card" aria-labelledby="own-mailboxes">
      <div class="card-head">
        <h2 id="own-mailboxes">Mailboxes</h2>
        {list.data?.has_more && <Link href="/mailboxes">All of them</Link>}
      </div>
      <Listed list={list} empty={<Empty title="No mailbox">Those that you saw were removed.</Empty>}>
        {(accounts) => (
          <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead>
                <tr>
                  <th scope="col">Mailbox</th>
                  <th scope="col">State</th>
                  <th scope="col">In sync</th>
                </tr>
              </thead>
              <tbody>
                {accounts.map((account) => (
                  <tr key={account.id}>
                    <td>
                      <MailboxLink account={account} />
                    </td>
                    <td class="first">
                      <State of={account.status} />
                      <StateDetail account={account} />
                    </td>
                    <td data-label="In sync">
                      <Time at={account.last_synced_at} none="not yet" />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listed>
    </section>
  );
}

function FailedCalls() {
  const query = { last_outcome: 'failed', limit: SHOWN } as const;
  const list = useQuery({
    queryKey: ['deliveries', query],
    queryFn: () => take(api.GET('/api/v1/webhooks/conversations', { params: { query } })),
    refetchInterval: 10_000,
  });
  const rows = list.data?.data.length ?? 0;
  return (
    <section class="card" aria-labelledby="own-failed">
      <div class="card-head">
        <h2 id="own-failed">Deliveries whose last attempt failed</h2>
        {rows > 0 && (
          <Link href="/deliveries?outcome=failed">{list.data?.has_more ? 'All of them' : `All ${count(rows)}`}</Link>
        )}
      </div>
      <Listed
        list={list}
        empty={<Empty title="None">Every event of these mailboxes was taken, or is on its way.</Empty>}
      >
        {(deliveries) => (
          <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead>
                <tr>
                  <th scope="col">Event</th>
                  <th scope="col">State</th>
                  <th scope="col">Answer</th>
                  <th scope="col">When</th>
                </tr>
              </thead>
              <tbody>
                {deliveries.map((delivery) => (
                  <tr key={delivery.id}>
                    <td>
                      <Link href={`/deliveries/${delivery.id}`} class="strong">
                        {delivery.event_type}
                      </Link>
                    </td>
                    <td class="first">
                      <State of={delivery.status} />
                    </td>
                    <td data-label="Answer">{delivery.http_status ?? delivery.error ?? '–'}</td>
                    <td data-label="When">
                      <Time at={delivery.created_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listed>
    </section>
  );
}

/** Stands for a page that the key may not see. */
export function ClosedPage() {
  return (
    <Page title="Not with this key">
      <div class="card">
        <Empty title="This page needs another key" action={<Link href="/">Go to the overview</Link>}>
          This key only sees some mailboxes, or may not change this.
        </Empty>
      </div>
    </Page>
  );
}
