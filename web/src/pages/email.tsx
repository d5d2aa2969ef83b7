import { useQuery } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { api, BASE, type Email, type HistoryEntry, take } from '../api/client.ts';
import { bytes, exactDate } from '../ui/format.ts';
import { Loading, Page, Problem, State } from '../ui/parts.tsx';
import { useEndpoints } from './deliveries/page.tsx';
import { useInstallation, workflowUrl } from './installation.ts';
import { WaitsFor } from './waiting.tsx';

export function EmailPage({ account, id }: { account: string; id: string }) {
  const email = useQuery({
    queryKey: ['email', account, id],
    queryFn: () =>
      take(
        api.GET('/api/v1/{account_id}/emails/{email_id}', { params: { path: { account_id: account, email_id: id } } }),
      ),
  });
  const up = { href: `/mailboxes/${account}`, label: 'Mailbox' };
  if (!email.data)
    return (
      <Page title="Email" up={up}>
        {email.error ? <Problem error={email.error} /> : <Loading lines={8} />}
        {email.error && <History account={account} id={id} />}
      </Page>
    );
  return (
    <Page title={email.data.subject || '(no subject)'} up={up}>
      <Reader email={email.data} />
      <History account={account} id={id} />
    </Page>
  );
}

const names = (people: Email['to_attendees']) =>
  people.map(({ display_name: name, identifier }) => (name ? `${name} <${identifier}>` : identifier)).join(', ');

function Reader({ email }: { email: Email }) {
  const [images, setImages] = useState(false);
  const url = `${BASE}/api/v1/${email.account_id}/emails/${email.id}`;
  const asksForImages =
    /(?:src|srcset|background)\s*=\s*["']?\s*(?:https?:)?\/\/|url\(\s*["']?\s*(?:https?:)?\/\//i.test(email.body);
  return (
    <article class="card" aria-label="Email">
      <div class="card-body stack-s">
        <dl class="facts">
          <dt>From</dt>
          <dd>{names([email.from_attendee])}</dd>
          <dt>To</dt>
          <dd>{names(email.to_attendees) || '–'}</dd>
          {email.cc_attendees.length > 0 && (
            <>
              <dt>Cc</dt>
              <dd>{names(email.cc_attendees)}</dd>
            </>
          )}
          <dt>Date</dt>
          <dd>{exactDate(email.date)}</dd>
          {email.attachments.length > 0 && (
            <>
              <dt>Files</dt>
              <dd class="row">
                {email.attachments.map((file) => (
                  <a key={file.id} href={`${url}/attachments/${file.id}`} download={file.name}>
                    {file.name || 'unnamed'} <span class="quiet small">{bytes(file.size)}</span>
                  </a>
                ))}
              </dd>
            </>
          )}
        </dl>
        <div class="row">
          <a class="button small" href={`${url}/source`} download={`${email.id}.eml`}>
            Raw message
          </a>
          {asksForImages && (
            <button type="button" class="button small" aria-pressed={images} onClick={() => setImages(!images)}>
              {images ? 'Block remote images' : 'Show remote images'}
            </button>
          )}
          {asksForImages && !images && (
            <span class="small quiet">Remote images are blocked: they would tell the sender that you read this.</span>
          )}
        </div>
      </div>
      {/* its response lets no script run and nothing load; the sandbox says so twice */}
      <iframe
        key={String(images)}
        class={isShort(email) ? 'reader short' : 'reader'}
        title="Content of the email"
        sandbox="allow-popups allow-popups-to-escape-sandbox"
        referrerpolicy="no-referrer"
        src={`${url}/view${images ? '?remote_images=true' : ''}`}
      />
    </article>
  );
}

/** The frame has a separate origin: the page cannot read its height. Laid out mail is as tall as the window allows. */
function isShort({ body, body_plain: text }: Email): boolean {
  return (
    text.length < 600 && text.split('\n').length < 12 && body.length < 6000 && !/<(table|img|style|h1)\b/i.test(body)
  );
}

function History({ account, id }: { account: string; id: string }) {
  const history = useQuery({
    queryKey: ['history', id],
    queryFn: () =>
      take(
        api.GET('/api/v1/{account_id}/emails/{email_id}/history', {
          params: { path: { account_id: account, email_id: id } },
        }),
      ),
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
          {history.data?.data.map((entry, index) => (
            <Entry key={`${entry.at}-${index}`} entry={entry} />
          ))}
        </ol>
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
