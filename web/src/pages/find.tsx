import { keepPreviousData, useQuery } from '@tanstack/preact-query';
import { useEffect, useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { api, type Schemas, take } from '../api/client.ts';
import { useDebounced } from '../ui/debounced.ts';
import { Dialog } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { Problem } from '../ui/parts.tsx';

type Hit = Schemas['LookupHit'];

/** Most emails that are listed. */
const EMAILS = 8;

const NAMES: Record<Hit['kind'], string> = {
  account: 'Mailbox',
  email: 'Email',
  attachment: 'Attachment',
  folder: 'Folder',
  draft: 'Draft',
  thread: 'Conversation',
  tracking: 'Tracked email',
  event: 'Event',
  delivery: 'Delivery',
  endpoint: 'Endpoint',
  replay: 'Replay',
  import: 'Import',
  batch: 'Batch',
  apiKey: 'API key',
  authLink: 'Connect link',
  oauthApp: 'OAuth app',
};

/** The page that shows an object. */
function pageOf({ kind, id, account_id: account, email_id: email }: Hit): string {
  const mailbox = `/mailboxes/${account ?? ''}`;
  if (email !== null) return `${mailbox}/emails/${email}`;
  switch (kind) {
    case 'folder':
      return `${mailbox}?folder=${id}`;
    case 'thread':
      return `${mailbox}/threads/${id}`;
    case 'batch':
      return `${mailbox}/batches/${id}`;
    case 'event':
      return `/deliveries?event=${id}`;
    case 'delivery':
      return `/deliveries/${id}`;
    case 'endpoint':
      return `/endpoints/${id}`;
    case 'replay':
      return `/replays/${id}`;
    case 'apiKey':
      return '/keys';
    case 'authLink':
      return '/mailboxes/links';
    case 'oauthApp':
      return '/mailboxes/apps';
    default:
      return mailbox;
  }
}

/** Opens the search over ids, names and emails; so does Ctrl-K or ⌘K. */
export function Find() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey)
        return;
      event.preventDefault();
      // nothing opens over the sign-in
      if (document.querySelector('dialog.over[open]')) return;
      setOpen(true);
    };
    document.addEventListener('keydown', open);
    return () => document.removeEventListener('keydown', open);
  }, []);
  return (
    <>
      <button
        type="button"
        class="button small find"
        onClick={() => setOpen(true)}
        aria-keyshortcuts="Control+K Meta+K"
      >
        Find… <kbd>Ctrl K</kbd>
      </button>
      {isOpen && <FindDialog close={() => setOpen(false)} />}
    </>
  );
}

/** Whether it can be words of an email: neither an id nor a Message-ID. */
const isText = (text: string) => text !== '' && text.length <= 256 && !/^([a-z]+_[0-9a-z]{26}|<\S+@\S+>)$/.test(text);

/** What a text finds; `isDone`: it was all looked up. */
function useFound(text: string): { found: Hit[]; isDone: boolean; error: unknown } {
  const q = useDebounced(text);
  const isAsked = q !== '';
  const hits = useQuery({
    queryKey: ['lookup', q],
    queryFn: () => take(api.GET('/api/v1/lookup', { params: { query: { q } } })),
    enabled: isAsked,
    placeholderData: keepPreviousData,
  });
  const emails = useQuery({
    queryKey: ['find-emails', q],
    queryFn: () => take(api.GET('/api/v1/emails', { params: { query: { q, limit: EMAILS, meta_only: true } } })),
    enabled: isText(q),
    placeholderData: keepPreviousData,
  });
  const named = isAsked ? (hits.data?.data ?? []) : [];
  const withWords = isText(q) ? (emails.data?.data ?? []).map(hitOf) : [];
  const isBusy = hits.isFetching || emails.isFetching;
  return {
    found: [...named, ...withWords],
    isDone: isAsked && q === text && !isBusy,
    error: hits.error ?? emails.error,
  };
}

const hitOf = ({ id, account_id, subject }: Schemas['Email']): Hit => ({
  object: 'LookupHit',
  kind: 'email',
  id,
  account_id,
  email_id: id,
  name: subject,
});

function FindDialog({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [, navigate] = useLocation();
  const words = text.trim();
  const { found, isDone, error } = useFound(words);
  const all = `/mailboxes/search?${new URLSearchParams({ q: words }).toString()}`;
  const [isEntered, setEntered] = useState(false);
  const go = (to: string) => {
    close();
    navigate(to);
  };
  const search = (event: Event) => {
    event.preventDefault();
    if (isText(words)) go(all);
    else setEntered(words !== '');
  };
  const enter = (value: string) => {
    setEntered(false);
    setText(value);
  };
  const [first] = found;
  useEffect(() => {
    if (isEntered && isDone && first) go(pageOf(first));
  }, [isEntered, isDone, first]);
  return (
    <Dialog title="Find" close={close}>
      <form onSubmit={search}>
        <TextField label="An id, a Message-ID, a name, or words of an email" type="search" value={text} set={enter} />
      </form>
      <Problem error={error} />
      <ul class="found" aria-live="polite">
        {found.map((hit) => (
          <li key={hit.id}>
            <Link href={pageOf(hit)} onClick={close}>
              <span class="quiet">{NAMES[hit.kind]}</span>{' '}
              <span class="clip" dir="auto">
                {hit.name || hit.id}
              </span>
            </Link>
          </li>
        ))}
        {isDone && found.length === 0 && !error && <li class="quiet">Nothing found.</li>}
      </ul>
      {isText(words) && (
        <Link href={all} onClick={close}>
          All emails with these words
        </Link>
      )}
    </Dialog>
  );
}
