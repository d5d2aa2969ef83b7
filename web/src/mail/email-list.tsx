import { useInfiniteQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import type { Email } from '../api/client.ts';
import { StarButton } from './email-actions.tsx';
import { EmailLink } from './email-link.tsx';
import { EmptyMail } from './empty-mail.tsx';
import type { MailFilter } from './filters.tsx';
import { PAGED, PagedList, ROWS } from './list.tsx';
import { EmailSelection, type ReadEmails, readEmails, type Selection, Tick, useSelection } from './selection.tsx';

/** What a row shows of an email. */
export const ROW_FIELDS =
  'account_id,thread_id,date,subject,snippet,from_attendee,has_attachments,folders,is_unread,is_starred,keywords';

/** The emails of a mailbox or of one of its folders. */
export function EmailList({ account, folder, filter }: { account: string; folder: string; filter: MailFilter }) {
  const read: ReadEmails = (query, signal) => readEmails(account, folder, { ...filter, ...query }, signal);
  const list = useInfiniteQuery({
    queryKey: ['emails', account, folder, filter],
    queryFn: ({ pageParam }) => read({ fields: ROW_FIELDS, limit: ROWS, cursor: pageParam }),
    ...PAGED,
  });
  const { selection, dialog } = useSelection(filter);
  return (
    <>
      {dialog}
      <PagedList list={list} empty={<EmptyMail account={account} filtered={Object.keys(filter).length > 0} />}>
        {(emails) => (
          <EmailRows
            emails={emails}
            hasMore={list.hasNextPage}
            list={[account, folder, filter]}
            selection={selection}
            read={read}
          />
        )}
      </PagedList>
    </>
  );
}

interface Rows {
  emails: readonly Email[];
  hasMore: boolean;
  /** names the list with its filters */
  list: readonly unknown[];
  selection: Selection;
  read: ReadEmails;
  /** what comes first in a row */
  children?: (email: Email) => ComponentChildren;
}

/** The rows of a list of emails, which can be ticked and changed. */
export function EmailRows({ emails, hasMore, list, selection, read, children }: Rows) {
  const { ticks, toggle } = selection;
  return (
    <>
      <EmailSelection {...{ emails, hasMore, selection, list, read }} />
      <ul class={children ? 'emails across' : 'emails'}>
        {emails.map((email) => (
          <li key={email.id}>
            <Tick subject={email.subject} checked={ticks.ids.has(email.id)} toggle={() => toggle(email.id)} />
            <StarButton email={email} />
            <EmailLink email={email}>{children?.(email)}</EmailLink>
          </li>
        ))}
      </ul>
    </>
  );
}
