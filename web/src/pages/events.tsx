import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { ListedEvent } from '../api/client.ts';
import { useEvents } from '../ui/events.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { timeOf } from '../ui/format.ts';
import { Empty, Page } from '../ui/parts.tsx';
import { given, useParam } from '../ui/query.ts';
import { EVENT_TYPES } from './event-types.ts';

const KEPT = 200;

/** Live events. */
export function EventsPage() {
  const [type, setType] = useParam('type');
  const [account, setAccount] = useParam('account');
  const [paused, setPaused] = useState(false);
  const [events, setEvents] = useState<ListedEvent[]>([]);
  const [open, setOpen] = useState<string>();
  const filter = new URLSearchParams(given({ types: type, account_id: account.trim() }));
  const query = filter.size > 0 ? `?${filter.toString()}` : '';
  const isLive = useEvents(query, (event) => {
    if (!paused) setEvents((before) => [event, ...before].slice(0, KEPT));
  });
  useEffect(() => setEvents([]), [query]);
  return (
    <Page
      title="Events"
      intro={
        <span class={`live ${isLive && !paused ? 'on' : ''}`}>
          {paused ? 'Paused' : isLive ? 'Live' : 'Connecting …'}
        </span>
      }
      actions={
        <>
          <button type="button" class="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
            {paused ? 'Resume' : 'Pause'}
          </button>
          <button type="button" class="button" onClick={() => setEvents([])}>
            Clear
          </button>
        </>
      }
    >
      <section class="card" aria-label="Events as they happen">
        <div class="filters" role="search">
          <SelectField
            label="Type"
            value={type}
            set={setType}
            options={[{ value: '', label: 'All types' }, ...EVENT_TYPES.map((value) => ({ value, label: value }))]}
          />
          <TextField label="Mailbox" placeholder="acc_…" value={account} set={setAccount} />
        </div>
        {events.length === 0 ? (
          <Empty title="Waiting for the next event">
            New mail, changes of folders and states appear here the moment they are stored. Older ones are in the log of{' '}
            <Link href="/deliveries">deliveries</Link>.
          </Empty>
        ) : (
          <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
            <table>
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">Event</th>
                  <th scope="col">About</th>
                  <th scope="col">Mailbox</th>
                  <th scope="col">
                    <span class="visually-hidden">Payload</span>
                  </th>
                </tr>
              </thead>
              <tbody aria-live="polite">
                {events.map((event) => (
                  <Row key={event.id} event={event} isOpen={open === event.id} toggle={setOpen} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </Page>
  );
}

interface About {
  email?: { id: string; subject: string };
  folder?: { name: string };
  account?: { name: string };
  status?: string;
}

function Row({
  event,
  isOpen,
  toggle,
}: {
  event: ListedEvent;
  isOpen: boolean;
  toggle: (id: string | undefined) => void;
}) {
  const { email, folder, account, status } = event.data as About;
  return (
    <>
      <tr>
        <td class="nowrap" data-label="Time">
          {timeOf(event.created_at)}
        </td>
        <td class="first strong nowrap">{event.type}</td>
        <td data-label="About">
          {email ? (
            <Link href={`/mailboxes/${event.account_id}/emails/${email.id}`}>
              <span class="clip">{email.subject || '(no subject)'}</span>
            </Link>
          ) : (
            <span class="clip">{folder?.name ?? account?.name ?? status ?? ''}</span>
          )}
        </td>
        <td data-label="Mailbox">
          <Link href={`/mailboxes/${event.account_id}`}>
            <code>…{event.account_id.slice(-6)}</code>
          </Link>
        </td>
        <td>
          <button
            type="button"
            class="button plain small"
            aria-expanded={isOpen}
            onClick={() => toggle(isOpen ? undefined : event.id)}
          >
            {isOpen ? 'Hide' : 'Payload'}
          </button>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={5}>
            <pre tabIndex={0} aria-label="Payload">
              {JSON.stringify(event, null, 2)}
            </pre>
          </td>
        </tr>
      )}
    </>
  );
}
