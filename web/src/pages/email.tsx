import { useInfiniteQuery, useQuery } from '@tanstack/preact-query';
import { Link, useLocation } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, type HistoryEntry, take } from '../api/client.ts';
import { exactDate } from '../ui/format.ts';
import { EmailActions } from '../mail/email-actions.tsx';
import { emailQuery } from '../mail/email-query.ts';
import { useListBefore } from '../mail/list.tsx';
import { Reader } from '../mail/reader.tsx';
import { useAccount } from '../mail/use-account.ts';
import { Loading, Page, Problem, State } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';
import { useEndpoints } from './deliveries/page.tsx';
import { useInstallation, workflowUrl } from './installation.ts';
import { WaitsFor } from './waiting.tsx';

export function EmailPage({ account, id }: { account: string; id: string }) {
  const email = useQuery(emailQuery(account, id));
  const mailbox = useAccount(account);
  const list = useListBefore();
  const [, navigate] = useLocation();
  const up = { href: list ?? `/mailboxes/${account}`, label: mailbox.data?.name ?? 'Mailbox' };
  if (!email.data)
    return (
      <Page title="Email" up={up}>
        {email.error ? <Problem error={email.error} /> : <Loading lines={8} />}
        {email.error && <History account={account} id={id} />}
      </Page>
    );
  return (
    <Page
      title={email.data.subject || '(no subject)'}
      up={up}
      actions={
        <Link href={`/mailboxes/${account}/threads/${email.data.thread_id}`} class="button" state={{ list }}>
          Conversation
        </Link>
      }
    >
      <article class="card" aria-label="Email">
        <Reader
          email={email.data}
          actions={
            <Allowed to="change">
              <EmailActions email={email.data} left={() => navigate(up.href)} />
            </Allowed>
          }
        />
      </article>
      <History account={account} id={id} />
    </Page>
  );
}

function History({ account, id }: { account: string; id: string }) {
  const history = useInfiniteQuery({
    queryKey: ['history', id],
    queryFn: ({ pageParam }) =>
      take(
        api.GET('/api/v1/{account_id}/emails/{email_id}/history', {
          params: { path: { account_id: account, email_id: id }, query: given({ cursor: pageParam }) },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (page) => page.cursor ?? undefined,
    refetchInterval: 5_000,
  });
  return (
    <section class="card" aria-labelledby="history">
      <div class="card-head">
        <h2 id="history">What happened to it</h2>
        <Link href={`/deliveries?email=${id}`} class="small">
          Its deliveries
        </Link>
      </div>
      <div class="card-body">
        {history.isPending && <Loading lines={3} />}
        <Problem error={history.error} />
        <ol class="timeline">
          {history.data?.pages
            .flatMap(({ data }) => data)
            .map((entry, index) => (
              <Entry key={`${entry.at}-${index}`} entry={entry} />
            ))}
        </ol>
        {history.hasNextPage && (
          <button
            type="button"
            class="button small"
            disabled={history.isFetchingNextPage}
            onClick={() => void history.fetchNextPage()}
          >
            {history.isFetchingNextPage ? 'Loading …' : 'More'}
          </button>
        )}
      </div>
    </section>
  );
}

const KIND: Record<Exclude<HistoryEntry['kind'], 'delivery'>, string> = {
  send: 'Sent by the API',
  ingested: 'Arrived',
  changed: 'Changed',
  event: 'Reported',
};

function toneOf({ kind, status }: HistoryEntry): string {
  if (kind === 'ingested' || kind === 'send') return 'accent';
  if (kind !== 'delivery') return '';
  return status === 'delivered' ? 'good' : status === 'failed' ? 'bad' : '';
}

function DeliveryTitle({ entry }: { entry: HistoryEntry }) {
  const endpoints = useEndpoints();
  const endpoint = endpoints.data?.data.find(({ id }) => id === entry.endpoint_id);
  const target = endpoint ? (endpoint.description ?? endpoint.url) : 'an endpoint';
  return (
    <>
      {entry.status === 'delivered' ? 'Delivered' : 'Delivery'} to {target}
    </>
  );
}

function Entry({ entry }: { entry: HistoryEntry }) {
  const installation = useInstallation();
  const { kind, status, workflow_id: workflow, delivery_id: delivery, attempts = [] } = entry;
  const run = workflow ? workflowUrl(installation.data, workflow) : undefined;
  return (
    <li class={toneOf(entry)}>
      <div class="row">
        <strong>{kind === 'delivery' ? <DeliveryTitle entry={entry} /> : KIND[kind]}</strong>
        {status && <State of={status} />}
        {entry.event_type && <code>{entry.event_type}</code>}
      </div>
      <div class="row small quiet">
        <time dateTime={entry.at}>{exactDate(entry.at)}</time>
        {attempts.length > 0 && (
          <span>
            {attempts.length === 1 ? '1 attempt' : `${attempts.length} attempts`}, last{' '}
            {attempts.at(-1)?.http_status ?? attempts.at(-1)?.error ?? ''}
          </span>
        )}
        <WaitsFor waiting={entry.waiting_for} />
        {delivery && <Link href={`/deliveries/${delivery}`}>Delivery</Link>}
        {run && (
          <a href={run} target="_blank" rel="noopener noreferrer">
            Run
          </a>
        )}
      </div>
    </li>
  );
}
