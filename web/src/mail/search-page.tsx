import { keepPreviousData, useInfiniteQuery } from '@tanstack/preact-query';
import { api, type Email, take } from '../api/client.ts';
import { TextField } from '../ui/field.tsx';
import { Empty, Page, Time } from '../ui/parts.tsx';
import { useDebounced } from '../ui/debounced.ts';
import { given, useParam } from '../ui/query.ts';
import { Labels, StarButton } from './email-actions.tsx';
import { ROW_FIELDS } from './email-list.tsx';
import { Filters, useMailFilter } from './filters.tsx';
import { Clip, MailLink, PagedList, personName, REFRESH_MS, ROWS } from './list.tsx';
import { useAccount } from './use-account.ts';

/** Emails of all mailboxes, newest first. */
export function SearchPage() {
  const [from, setFrom] = useParam('from');
  const filter = given({ ...useMailFilter(), from: useDebounced(from).trim() });
  const list = useInfiniteQuery({
    queryKey: ['search', filter],
    queryFn: ({ pageParam }) => {
      const query = given({ ...filter, fields: ROW_FIELDS, limit: ROWS, cursor: pageParam });
      return take(api.GET('/api/v1/emails', { params: { query } }));
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.cursor ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  return (
    <Page
      title="Mail of all mailboxes"
      intro="Newest first, with Trash and Spam, without drafts."
      up={{ href: '/mailboxes', label: 'Mailboxes' }}
    >
      <section class="card" aria-label="Emails">
        <div class="filters" role="search">
          <Filters />
          <TextField label="From" type="email" placeholder="Whole address" value={from} set={setFrom} />
        </div>
        <PagedList list={list} empty={<Empty title="No email fits">Try other words, or fewer filters.</Empty>}>
          {(emails) => (
            <ul class="emails across">
              {emails.map((email) => (
                <Found key={email.id} email={email} />
              ))}
            </ul>
          )}
        </PagedList>
      </section>
    </Page>
  );
}

function Found({ email }: { email: Email }) {
  return (
    <li>
      <StarButton email={email} />
      <MailLink href={`/mailboxes/${email.account_id}/emails/${email.id}`} unread={email.is_unread}>
        <span class="where">
          <span class="visually-hidden">In the mailbox </span>
          <MailboxName id={email.account_id} />
        </span>
        <span class="who">{personName(email.from_attendee)}</span>
        <span class="what">
          <Labels of={email} />
          {email.subject || '(no subject)'} <span class="preview">{email.snippet}</span>
        </span>
        <span class="when">
          {email.has_attachments && <Clip />}
          <Time at={email.date} />
        </span>
      </MailLink>
    </li>
  );
}

function MailboxName({ id }: { id: string }) {
  const mailbox = useAccount(id);
  return <>{mailbox.data?.name ?? '…'}</>;
}
