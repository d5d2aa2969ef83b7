import { useInfiniteQuery } from '@tanstack/preact-query';
import { api, type ThreadSummary, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Time } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';
import { EmptyMail } from './empty-mail.tsx';
import type { MailFilter } from './filters.tsx';
import { Clip, MailLink, PAGED, PagedList, peopleNames, ROWS, Starred } from './list.tsx';
import { ThreadSelection, Tick, useSelection } from './selection.tsx';

/** The conversations of a mailbox or of one of its folders. */
export function ThreadList({ account, folder, filter }: { account: string; folder: string; filter: MailFilter }) {
  const query = given({ ...filter, folder_id: folder, limit: ROWS });
  const list = useInfiniteQuery({
    queryKey: ['threads', account, query],
    queryFn: ({ pageParam }) =>
      take(
        api.GET('/api/v1/{account_id}/threads', {
          params: { path: { account_id: account }, query: { ...query, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    ...PAGED,
  });
  const { selection, dialog } = useSelection(query);
  const { ticks, toggle } = selection;
  return (
    <>
      {dialog}
      <PagedList list={list} empty={<EmptyMail account={account} filtered={Object.keys(filter).length > 0} />}>
        {(threads) => (
          <>
            <ThreadSelection {...{ account, folder, threads, selection }} />
            <ul class="emails">
              {threads.map((thread) => (
                <li key={thread.id}>
                  <Tick subject={thread.subject} checked={ticks.ids.has(thread.id)} toggle={() => toggle(thread.id)} />
                  <ThreadLink thread={thread} />
                </li>
              ))}
            </ul>
          </>
        )}
      </PagedList>
    </>
  );
}

function ThreadLink({ thread }: { thread: ThreadSummary }) {
  const { emails_count: emails, unread_count: unread } = thread;
  return (
    <MailLink href={`/mailboxes/${thread.account_id}/threads/${thread.id}`} unread={unread > 0}>
      <span class="who">
        <bdi>{peopleNames(thread.participants)}</bdi>
        {emails > 1 && (
          <span class="many">
            {count(emails)}
            <span class="visually-hidden"> emails</span>
          </span>
        )}
        {unread > 0 && <span class="visually-hidden">, {count(unread)} unread</span>}
      </span>
      <span class="what">
        <bdi>{thread.subject || '(no subject)'}</bdi> <bdi class="preview">{thread.snippet}</bdi>
      </span>
      <span class="when">
        {thread.is_starred && <Starred />}
        {thread.has_attachments && <Clip />}
        <Time at={thread.last_date} />
      </span>
    </MailLink>
  );
}
