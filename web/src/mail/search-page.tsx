import { useInfiniteQuery } from '@tanstack/preact-query';
import { api, take } from '../api/client.ts';
import { TextField } from '../ui/field.tsx';
import { Empty, Page } from '../ui/parts.tsx';
import { useDebounced } from '../ui/debounced.ts';
import { given, useParam } from '../ui/query.ts';
import { EmailRows, ROW_FIELDS } from './email-list.tsx';
import { Filters, useMailFilter } from './filters.tsx';
import { PAGED, PagedList, ROWS } from './list.tsx';
import { MailboxName } from './mailbox-name.tsx';
import { type ReadEmails, useSelection } from './selection.tsx';

/** Emails of all mailboxes, newest first. */
export function SearchPage() {
  const [from, setFrom] = useParam('from');
  const filter = given({ ...useMailFilter(), from: useDebounced(from).trim() });
  const read: ReadEmails = (page, signal) => {
    const query = given({ ...filter, ...page });
    return take(api.GET('/api/v1/emails', { params: { query }, ...(signal ? { signal } : {}) }));
  };
  const list = useInfiniteQuery({
    queryKey: ['search', filter],
    queryFn: ({ pageParam }) => read({ fields: ROW_FIELDS, limit: ROWS, cursor: pageParam }),
    ...PAGED,
  });
  const { selection, dialog } = useSelection(filter);
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
        {dialog}
        <PagedList list={list} empty={<Empty title="No email fits">Try other words, or fewer filters.</Empty>}>
          {(emails) => (
            <EmailRows
              emails={emails}
              hasMore={list.hasNextPage}
              list={['all', filter]}
              selection={selection}
              read={read}
            >
              {({ account_id: id }) => (
                <span class="where">
                  <span class="visually-hidden">In the mailbox </span>
                  <MailboxName id={id} />
                </span>
              )}
            </EmailRows>
          )}
        </PagedList>
      </section>
    </Page>
  );
}
