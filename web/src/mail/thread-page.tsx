import { useInfiniteQuery, useQuery } from '@tanstack/preact-query';
import { useId, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, type Email, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Loading, Page, Problem, Time } from '../ui/parts.tsx';
import { useBatch } from './batch.tsx';
import { EmailActions } from './email-actions.tsx';
import { emailQuery } from './email-query.ts';
import { Clip, personName, PagedList, REFRESH_MS, Starred, useListBefore } from './list.tsx';
import { Reader } from './reader.tsx';
import { ChangeButtons, labelsIn } from './selection.tsx';
import { useAccount } from './use-account.ts';

/** Emails of a conversation that are loaded at a time. */
const EMAILS = 100;
/** Unread emails that open with the conversation, counted from its end. */
const OPEN_AT_MOST = 5;

/** The emails of a conversation, oldest first; the last one is open. */
export function ThreadPage({ account, id }: { account: string; id: string }) {
  const mailbox = useAccount(account);
  const list = useListBefore();
  const thread = useInfiniteQuery({
    queryKey: ['thread', account, id],
    queryFn: ({ pageParam }) =>
      take(
        api.GET('/api/v1/{account_id}/threads/{thread_id}', {
          params: {
            path: { account_id: account, thread_id: id },
            query: { meta_only: true, limit: EMAILS, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (page) => page.cursor,
    refetchInterval: REFRESH_MS,
  });
  const emails = thread.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = `${count(emails.length)}${thread.hasNextPage ? ' or more' : ''}`;
  const { begin, dialog } = useBatch();
  return (
    <Page
      title={thread.data ? emails.at(-1)?.subject || '(no subject)' : 'Conversation'}
      intro={thread.data && `${total} ${emails.length === 1 ? 'email' : 'emails'}`}
      actions={
        emails.length > 1 &&
        !thread.hasNextPage && (
          <ChangeButtons
            parts={[{ account, chosen: { filter: { thread_id: id } }, counted: emails.length }]}
            labels={labelsIn(emails)}
            begin={begin}
          />
        )
      }
      up={{ href: list ?? `/mailboxes/${account}?view=threads`, label: mailbox.data?.name ?? 'Mailbox' }}
    >
      {dialog}
      <PagedList list={thread} empty={null}>
        {(rows) => (
          <ol class="conversation">
            {rows.map((email, index) => (
              <Turn
                key={email.id}
                email={email}
                isOpen={index === rows.length - 1 || (email.is_unread && index >= rows.length - OPEN_AT_MOST)}
              />
            ))}
          </ol>
        )}
      </PagedList>
    </Page>
  );
}

function Turn({ email, isOpen: opensFirst }: { email: Email; isOpen: boolean }) {
  const [isOpen, setOpen] = useState(opensFirst);
  const id = useId();
  return (
    <li class="card">
      <h2>
        <button
          type="button"
          class={email.is_unread ? 'turn unread' : 'turn'}
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => setOpen(!isOpen)}
        >
          <span class="who">
            <bdi>{personName(email.from_attendee)}</bdi>
          </span>
          <span class="what preview">{!isOpen && <bdi>{email.snippet}</bdi>}</span>
          <span class="when">
            {email.is_starred && <Starred />}
            {email.has_attachments && <Clip />}
            <Time at={email.date} />
          </span>
        </button>
      </h2>
      <div id={id}>{isOpen && <Whole email={email} />}</div>
    </li>
  );
}

function Whole({ email: { account_id: account, id } }: { email: Email }) {
  const email = useQuery(emailQuery(account, id));
  const list = useListBefore();
  return (
    <>
      {email.isPending && <Loading />}
      <Problem error={email.error} />
      {email.data && (
        <Reader
          email={email.data}
          actions={
            <Allowed to="change">
              <EmailActions email={email.data} />
            </Allowed>
          }
        />
      )}
      <p class="card-body small">
        <Link href={`/mailboxes/${account}/emails/${id}`} state={{ list }}>
          What happened to it
        </Link>
      </p>
    </>
  );
}
