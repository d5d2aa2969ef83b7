import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { type Account, api, type Email, take } from '../api/client.ts';
import { Confirm } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { count } from '../ui/format.ts';
import { Empty, Loading, Notice, Page, Problem, State, Time } from '../ui/parts.tsx';
import { given, useParam } from '../ui/query.ts';
import { useDebounced } from '../ui/debounced.ts';
import { FolderTree } from './folder-tree.tsx';
import { runsUrl, useInstallation } from './installation.ts';
import { SendTest } from './send-test.tsx';

const REFRESH_MS = 4_000;

export function MailboxPage({ id }: { id: string }) {
  const [dialog, setDialog] = useState<'send' | 'remove'>();
  const account = useQuery({
    queryKey: ['account', id],
    queryFn: () => take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } })),
    refetchInterval: REFRESH_MS,
  });
  const up = { href: '/mailboxes', label: 'Mailboxes' };
  if (!account.data)
    return (
      <Page title="Mailbox" up={up}>
        {account.error ? <Problem error={account.error} /> : <Loading />}
      </Page>
    );
  return (
    <Page
      title={account.data.name}
      intro={account.data.name === account.data.user_id ? undefined : account.data.user_id}
      up={up}
      actions={
        <>
          <button type="button" class="button" onClick={() => setDialog('send')}>
            Send a test mail
          </button>
          <Link href={`/mailboxes/connect?account=${id}`} class="button">
            Reconnect
          </Link>
          <button type="button" class="button danger" onClick={() => setDialog('remove')}>
            Remove
          </button>
        </>
      }
    >
      {account.data.status !== 'running' && <Trouble account={account.data} />}
      <Facts account={account.data} />
      <Mail id={id} />
      {dialog === 'send' && <SendTest account={account.data} close={() => setDialog(undefined)} />}
      {dialog === 'remove' && <Remove account={account.data} close={() => setDialog(undefined)} />}
    </Page>
  );
}

function Trouble({ account }: { account: Account }) {
  const isRefused = account.status === 'disconnected';
  return (
    <Notice
      tone={isRefused ? 'bad' : 'warn'}
      title={isRefused ? 'The provider refuses the login' : 'The mailbox cannot be reached just now'}
    >
      {account.status_detail || 'The server gave no reason.'}{' '}
      {isRefused ? (
        <Link href={`/mailboxes/connect?account=${account.id}`}>Connect it again with the right password</Link>
      ) : (
        'It is retried automatically.'
      )}
    </Notice>
  );
}

function Facts({ account }: { account: Account }) {
  const { mail } = account.connection_params;
  const installation = useInstallation();
  const history = useQuery({
    queryKey: ['account-history', account.id],
    queryFn: () => take(api.GET('/api/v1/accounts/{id}/history', { params: { path: { id: account.id } } })),
  });
  const changed = history.data?.data.filter(({ event_type: type }) => type?.startsWith('account.status.')).at(-1);
  const runs = runsUrl(installation.data, account.id);
  return (
    <section class="card pad stack" aria-label="State">
      <dl class="facts">
        <dt>State</dt>
        <dd class="row">
          <State of={account.status} /> <span class="quiet small">since</span>
          <Time at={changed?.at ?? account.created_at} />
        </dd>
        <dt>In sync</dt>
        <dd>
          <Time at={account.last_synced_at} none="not yet" />
        </dd>
        <dt>Incoming</dt>
        <dd>
          {mail.imap_host}:{mail.imap_port} <span class="quiet">{mail.imap_encryption}</span>
        </dd>
        <dt>Outgoing</dt>
        <dd>
          {mail.smtp_host}:{mail.smtp_port} <span class="quiet">{mail.smtp_encryption}</span>
        </dd>
        <dt>Id</dt>
        <dd>
          <code>{account.id}</code>
        </dd>
        <dt>More</dt>
        <dd class="row">
          <Link href={`/deliveries?account=${account.id}`}>Deliveries</Link>
          <Link href={`/events?account=${account.id}`}>Live events</Link>
          <Link href={`/audit?object=${account.id}`}>Audit</Link>
          {runs && (
            <a href={runs} target="_blank" rel="noopener noreferrer">
              Workflows in Temporal
            </a>
          )}
        </dd>
      </dl>
      {account.initial_sync && <ImportProgress sync={account.initial_sync} />}
    </section>
  );
}

function ImportProgress({ sync }: { sync: NonNullable<Account['initial_sync']> }) {
  const text = {
    pending: 'The import begins in a moment.',
    running: `Importing the mail of the last ${sync.days} days: ${count(sync.imported)} so far`,
    completed: `The mail of the last ${sync.days} days is imported: ${count(sync.imported)} emails.`,
    failed: `The import failed after ${count(sync.imported)} emails. Connect the mailbox again to repeat it.`,
  }[sync.status];
  return (
    <div class="stack-s">
      <p class="small" id="import">
        {text}
      </p>
      {(sync.status === 'pending' || sync.status === 'running') && (
        <progress class="progress" aria-labelledby="import" max={1} />
      )}
    </div>
  );
}

function Mail({ id }: { id: string }) {
  const [folder, setFolder] = useParam('folder');
  const [search, setSearch] = useParam('q');
  const [unread, setUnread] = useParam('unread');
  const folders = useQuery({
    queryKey: ['folders', id],
    queryFn: () => take(api.GET('/api/v1/{account_id}/folders', { params: { path: { account_id: id } } })),
    refetchInterval: REFRESH_MS,
  });
  return (
    <div class="mailbox">
      <nav class="card folders" aria-label="Folders">
        <Problem error={folders.error} />
        {folders.isPending && <Loading />}
        <FolderTree folders={folders.data?.data ?? []} here={folder} go={setFolder} />
      </nav>
      <section class="card" aria-label="Emails">
        <div class="filters" role="search">
          <div class="wide-field">
            <TextField
              label="Search"
              type="search"
              placeholder="Subject, text, people"
              value={search}
              set={setSearch}
            />
          </div>
          <SelectField
            label="Show"
            value={unread}
            set={setUnread}
            options={[
              { value: '', label: 'All' },
              { value: 'true', label: 'Unread' },
            ]}
          />
        </div>
        <Emails id={id} folder={folder} search={search} unread={unread === 'true'} />
      </section>
    </div>
  );
}

function Emails({ id, folder, search, unread }: { id: string; folder: string; search: string; unread: boolean }) {
  const q = useDebounced(search);
  const filter = given({ q, is_unread: unread || undefined, limit: 30 });
  const list = useInfiniteQuery({
    queryKey: ['emails', id, folder, filter],
    queryFn: ({ pageParam }) => {
      const query = { ...filter, ...(pageParam ? { cursor: pageParam } : {}) };
      return take(
        folder === ''
          ? api.GET('/api/v1/{account_id}/emails', { params: { path: { account_id: id }, query } })
          : api.GET('/api/v1/{account_id}/folders/{folder_id}/emails', {
              params: { path: { account_id: id, folder_id: folder }, query },
            }),
      );
    },
    initialPageParam: '',
    getNextPageParam: (page) => page.cursor ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  const emails = list.data?.pages.flatMap(({ data }) => data) ?? [];
  if (list.isPending) return <Loading lines={6} />;
  if (list.error)
    return (
      <div class="card-body">
        <Problem error={list.error} retry={() => void list.refetch()} />
      </div>
    );
  if (emails.length === 0)
    return q || unread ? (
      <Empty title="No email fits">Try other words, another folder, or all mail.</Empty>
    ) : (
      <Empty title="No mail yet">
        What arrives from now on is shown here within seconds. Send a test mail to see it.
      </Empty>
    );
  return (
    <>
      <ul class="emails">
        {emails.map((email) => (
          <EmailItem key={email.id} email={email} />
        ))}
      </ul>
      {list.hasNextPage && (
        <div class="pager">
          <span />
          <button
            type="button"
            class="button small"
            disabled={list.isFetchingNextPage}
            onClick={() => void list.fetchNextPage()}
          >
            More
          </button>
        </div>
      )}
    </>
  );
}

function EmailItem({ email }: { email: Email }) {
  const { from_attendee: from } = email;
  return (
    <li>
      <Link href={`/mailboxes/${email.account_id}/emails/${email.id}`} class={email.is_unread ? 'unread' : ''}>
        <span>{from.display_name || from.identifier || 'Unknown sender'}</span>
        <span>
          {email.subject || '(no subject)'} <span class="preview">{email.body_plain.slice(0, 120)}</span>
        </span>
        <Time at={email.date} />
      </Link>
    </li>
  );
}

function Remove({ account, close }: { account: Account; close: () => void }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/accounts/{id}', { params: { path: { id: account.id } } })),
    onSuccess: async () => {
      navigate('/mailboxes');
      await queries.invalidateQueries({ queryKey: ['accounts'] });
    },
  });
  return (
    <Confirm
      title={`Remove ${account.name}?`}
      action="Remove it"
      busy={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate()}
      close={close}
    >
      Its mail, attachments and credentials are deleted here. The mailbox at the provider stays as it is.
    </Confirm>
  );
}
