import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { api, type ListedEvent, take } from '../api/client.ts';
import { JsonText } from '../ui/copy.tsx';
import { useEvents } from '../ui/events.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { exactDate, momentOf } from '../ui/format.ts';
import { Empty, Loading, Page, Problem } from '../ui/parts.tsx';
import { given, useParam } from '../ui/query.ts';
import { EVENT_TYPES, isEventType } from './event-types.ts';

const SIZE = 50;
/** Live events that are kept besides those that were loaded; at more of them the list is loaded again. */
const KEPT = 200;

/** The last events, followed live; older ones are loaded as they are scrolled to. */
export function EventsPage() {
  const [chosen, setChosen] = useParam('type');
  const [account, setAccount] = useParam('account');
  const [paused, setPaused] = useState(false);
  const types = chosen.split(',').filter(isEventType);
  const filter = given({ types: types.join(','), account_id: account.trim() });
  const feed = useFeed(filter, paused);
  const resume = () => {
    setPaused(!paused);
    if (paused) void feed.restart();
  };
  return (
    <Page
      title="Events"
      intro={
        <span class={`live ${feed.isLive && !paused ? 'on' : ''}`}>
          {paused ? 'Paused' : feed.isLive ? 'Live' : 'Connecting …'}
        </span>
      }
      actions={
        <button type="button" class="button" aria-pressed={paused} onClick={resume}>
          {paused ? 'Resume' : 'Pause'}
        </button>
      }
    >
      <section class="card" aria-label="Events as they happen">
        <div class="filters" role="search">
          <SelectField
            label="Type"
            value=""
            set={(type) => setChosen([...types, type].join(','))}
            options={[
              { value: '', label: types.length === 0 ? 'All types' : 'Add a type …' },
              ...EVENT_TYPES.filter((type) => !types.includes(type)).map((value) => ({ value, label: value })),
            ]}
          />
          <TextField label="Mailbox" placeholder="acc_…" value={account} set={setAccount} />
          {types.length > 0 && (
            <div class="presets" role="group" aria-label="Types shown">
              {types.map((type) => (
                <button
                  key={type}
                  type="button"
                  class="button small"
                  onClick={() => setChosen(types.filter((one) => one !== type).join(','))}
                >
                  {type} <span aria-hidden="true">×</span>
                  <span class="visually-hidden">: do not show</span>
                </button>
              ))}
            </div>
          )}
        </div>
        <Problem error={feed.error} />
        {feed.isPending && <Loading lines={8} />}
        {!feed.isPending && feed.events.length === 0 && (
          <Empty title="Waiting for the next event">
            New mail, changes of folders and states appear here the moment they are stored.
          </Empty>
        )}
        {feed.events.length > 0 && <Table events={feed.events} />}
        {feed.hasOlder && <Older load={feed.loadOlder} isLoading={feed.isLoadingOlder} />}
      </section>
    </Page>
  );
}

/** The stored events of a filter, newest first, with those that the stream has added. */
function useFeed(filter: { types?: string; account_id?: string }, paused: boolean) {
  const [live, setLive] = useState<ListedEvent[]>([]);
  const queries = useQueryClient();
  const query = new URLSearchParams(filter).toString();
  const key = ['events', query];
  const stored = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) =>
      take(
        api.GET('/api/v1/webhooks/events', {
          params: { query: { order: 'desc', limit: SIZE, ...filter, ...given({ cursor: pageParam }) } },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (page) => page.cursor ?? undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  const isLive = useEvents(query === '' ? '' : `?${query}`, (event) => {
    if (paused) return;
    // without its oldest ones there would be a gap above the list
    if (live.length >= KEPT) void restart();
    setLive((before) => [event, ...before]);
  });
  /** Loads the list again, with what the stream has missed; what it has added before is in there, too. */
  const restart = async () => {
    setLive([]);
    // a page that is under way may have been read before
    await queries.cancelQueries({ queryKey: key });
    await stored.refetch();
  };
  useEffect(() => setLive([]), [query]);
  // the stream begins when it is connected: what came between is in the list
  useEffect(() => {
    // a paused list is loaded again when it resumes
    if (isLive && !paused) void restart();
  }, [isLive]);
  const added = new Set(live.map(({ id }) => id));
  const listed = (stored.data?.pages.flatMap(({ data }) => data) ?? []) as ListedEvent[];
  return {
    events: [...live, ...listed.filter(({ id }) => !added.has(id))],
    isLive,
    isPending: stored.isPending,
    error: stored.error,
    restart,
    hasOlder: stored.hasNextPage,
    isLoadingOlder: stored.isFetchingNextPage,
    loadOlder: () => void stored.fetchNextPage(),
  };
}

/** Loads older events when it is scrolled to, or by its button. */
function Older({ load, isLoading }: { load: () => void; isLoading: boolean }) {
  const ref = useRef<HTMLElement>(null);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && latest.current());
    if (ref.current) seen.observe(ref.current);
    return () => seen.disconnect();
  }, []);
  return (
    <nav class="pager" aria-label="Pages" ref={ref}>
      <button type="button" class="button small" disabled={isLoading} onClick={load}>
        {isLoading ? 'Loading …' : 'Older'}
      </button>
    </nav>
  );
}

function Table({ events }: { events: ListedEvent[] }) {
  const [open, setOpen] = useState<string>();
  const names = useMailboxNames();
  return (
    <div class="table-wrap cards dense" tabIndex={0} role="group" aria-label="Table">
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
            <Row key={event.id} event={event} names={names} isOpen={open === event.id} toggle={setOpen} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Names of the first mailboxes; the others show the end of their ids. */
function useMailboxNames(): ReadonlyMap<string, string> {
  const accounts = useQuery({
    queryKey: ['accounts', { limit: 250 }],
    queryFn: () => take(api.GET('/api/v1/accounts', { params: { query: { limit: 250 } } })),
    staleTime: 60_000,
  });
  return new Map(accounts.data?.data.map(({ id, name }) => [id, name]));
}

interface About {
  email?: { id: string; subject: string };
  folder?: { name: string };
  account?: { name: string };
  status?: string;
}

function Row({
  event,
  names,
  isOpen,
  toggle,
}: {
  event: ListedEvent;
  names: ReadonlyMap<string, string>;
  isOpen: boolean;
  toggle: (id: string | undefined) => void;
}) {
  const { email, folder, account, status } = event.data as About;
  return (
    <>
      <tr>
        <td class="nowrap" data-label="Time">
          <time dateTime={event.created_at} title={exactDate(event.created_at)}>
            {momentOf(event.created_at)}
          </time>
        </td>
        <td class="first strong nowrap">{event.type}</td>
        <td data-label="About">
          {email ? (
            <Link href={`/mailboxes/${event.account_id}/emails/${email.id}`}>
              <span class="clip" dir="auto">
                {email.subject || '(no subject)'}
              </span>
            </Link>
          ) : (
            <span class="clip" dir="auto">
              {folder?.name ?? account?.name ?? status ?? ''}
            </span>
          )}
        </td>
        <td data-label="Mailbox">
          <Link href={`/mailboxes/${event.account_id}`} title={event.account_id}>
            <span class="clip" dir="auto">
              {names.get(event.account_id) ?? `…${event.account_id.slice(-6)}`}
            </span>
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
            <span class="visually-hidden"> of {event.id}</span>
          </button>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={5}>
            <JsonText value={event} label="Payload" file={event.id} />
          </td>
        </tr>
      )}
    </>
  );
}
