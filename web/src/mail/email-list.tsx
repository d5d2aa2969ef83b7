import { useInfiniteQuery } from '@tanstack/preact-query';
import { Allowed } from '../access/may.tsx';
import { api, type Email, take } from '../api/client.ts';
import { useEffect, useState } from 'preact/hooks';
import { given } from '../ui/query.ts';
import { StarButton } from './email-actions.tsx';
import { EmailLink } from './email-link.tsx';
import { EmptyMail } from './empty-mail.tsx';
import type { MailFilter } from './filters.tsx';
import { PAGED, PagedList, ROWS } from './list.tsx';
import { NO_TICKS, SelectionBar } from './selection.tsx';

/** What a row shows of an email. */
export const ROW_FIELDS =
  'account_id,thread_id,date,subject,snippet,from_attendee,has_attachments,folders,is_unread,is_starred,keywords';

/** The emails of a mailbox or of one of its folders. */
export function EmailList({ account, folder, filter }: { account: string; folder: string; filter: MailFilter }) {
  const list = useInfiniteQuery({
    queryKey: ['emails', account, folder, filter],
    queryFn: ({ pageParam }) => {
      const query = given({ ...filter, fields: ROW_FIELDS, limit: ROWS, cursor: pageParam });
      return take(
        folder === ''
          ? api.GET('/api/v1/{account_id}/emails', { params: { path: { account_id: account }, query } })
          : api.GET('/api/v1/{account_id}/folders/{folder_id}/emails', {
              params: { path: { account_id: account, folder_id: folder }, query },
            }),
      );
    },
    ...PAGED,
  });
  const [ticks, setTicks] = useState(NO_TICKS);
  // what was ticked is not what the filters show
  const filterText = JSON.stringify(filter);
  useEffect(() => setTicks(NO_TICKS), [filterText]);
  const toggle = (id: string) => {
    const ids = new Set(ticks.ids);
    if (!ids.delete(id)) ids.add(id);
    setTicks({ ids, isAll: false });
  };
  return (
    <PagedList list={list} empty={<EmptyMail account={account} filtered={Object.keys(filter).length > 0} />}>
      {(emails) => (
        <>
          <Allowed to="change">
            <SelectionBar {...{ account, folder, filter, emails, ticks, setTicks }} hasMore={list.hasNextPage} />
          </Allowed>
          <ul class="emails">
            {emails.map((email) => (
              <EmailItem
                key={email.id}
                email={email}
                isTicked={ticks.ids.has(email.id)}
                tick={() => toggle(email.id)}
              />
            ))}
          </ul>
        </>
      )}
    </PagedList>
  );
}

function EmailItem({ email, isTicked, tick }: { email: Email; isTicked: boolean; tick: () => void }) {
  return (
    <li>
      <Allowed to="change">
        <input
          type="checkbox"
          checked={isTicked}
          onChange={tick}
          aria-label={`Choose ${email.subject || '(no subject)'}`}
        />
      </Allowed>
      <StarButton email={email} />
      <EmailLink email={email} />
    </li>
  );
}
