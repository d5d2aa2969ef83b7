import { useInfiniteQuery } from '@tanstack/preact-query';
import { api, type Email, take } from '../api/client.ts';
import { TextField } from '../ui/field.tsx';
import { Empty, Page } from '../ui/parts.tsx';
import { useDebounced } from '../ui/debounced.ts';
import { given, useParam } from '../ui/query.ts';
import { StarButton } from './email-actions.tsx';
import { EmailLink } from './email-link.tsx';
import { ROW_FIELDS } from './email-list.tsx';
import { Filters, useMailFilter } from './filters.tsx';
import { PAGED, PagedList, ROWS } from './list.tsx';
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
    ...PAGED,
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
      <EmailLink email={email}>
        <span class="where">
          <span class="visually-hidden">In the mailbox </span>
          <MailboxName id={email.account_id} />
        </span>
      </EmailLink>
    </li>
  );
}

function MailboxName({ id }: { id: string }) {
  const mailbox = useAccount(id);
  return <>{mailbox.data?.name ?? '…'}</>;
}
