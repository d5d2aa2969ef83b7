import type { RefObject } from 'preact';
import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { Link, useLocation } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { type Account, api, take } from '../api/client.ts';
import { choiceText, FolderChoice } from '../mail/folder-choice.tsx';
import { Following } from '../mail/following.tsx';
import { ImportForm } from '../mail/imports/form.tsx';
import { ImportList } from '../mail/imports/list.tsx';
import { MailboxMail } from '../mail/mailbox-mail.tsx';
import { useAccount } from '../mail/use-account.ts';
import { Confirm } from '../ui/dialog.tsx';
import { useLeft } from '../ui/left.ts';
import { Loading, Notice, Page, Problem, State, Time } from '../ui/parts.tsx';
import { useShown } from '../ui/shown.ts';
import { runsUrl, useInstallation } from './installation.ts';
import { REFRESH_MS } from '../mail/list.tsx';
import { SendTest } from './send-test.tsx';

/** Refresh of the time since when a mailbox is in its state: between two looks it may have left it and come back. */
const SINCE_MS = 15_000;

export function MailboxPage({ id }: { id: string }) {
  const isLeft = useLeft();
  const dialog = useShown<'send' | 'import' | 'folders' | 'remove'>();
  const account = useAccount(id, REFRESH_MS);
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
        <Allowed to="change">
          <button type="button" class="button" onClick={() => dialog.show('send')}>
            Send a test mail
          </button>
          <button type="button" class="button" onClick={() => dialog.show('import')}>
            Import older mail…
          </button>
          <Link href={`/mailboxes/connect?account=${id}`} class="button">
            Reconnect
          </Link>
          <button type="button" class="button danger" onClick={() => dialog.show('remove')}>
            Remove
          </button>
        </Allowed>
      }
    >
      <Problem error={account.error} />
      {account.data.status !== 'running' && <Trouble account={account.data} />}
      <Facts account={account.data} chooseFolders={() => dialog.show('folders')} />
      <ImportList account={account.data} />
      <MailboxMail account={id} />
      {dialog.shown === 'send' && <SendTest account={account.data} close={dialog.close} />}
      {dialog.shown === 'import' && <ImportForm account={id} close={dialog.close} />}
      {dialog.shown === 'folders' && <FolderChoice account={account.data} close={dialog.close} />}
      {dialog.shown === 'remove' && <Remove account={account.data} isLeft={isLeft} close={dialog.close} />}
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
        <Allowed to="change">
          <Link href={`/mailboxes/connect?account=${account.id}`}>Connect it again with the right password</Link>
        </Allowed>
      ) : (
        'It is retried automatically.'
      )}
    </Notice>
  );
}

function Facts({ account, chooseFolders }: { account: Account; chooseFolders: () => void }) {
  const { mail } = account.connection_params;
  const installation = useInstallation();
  const history = useQuery({
    queryKey: ['account-history', account.id, account.status],
    queryFn: () =>
      take(
        api.GET('/api/v1/accounts/{id}/history', { params: { path: { id: account.id }, query: { order: 'desc' } } }),
      ),
    refetchInterval: SINCE_MS,
  });
  const changed = history.data?.data.find(({ event_type: type }) => type?.startsWith('account.status.'));
  const runs = runsUrl(installation.data, account.id);
  return (
    <section class="card pad stack" aria-label="State">
      <dl class="facts">
        <dt>State</dt>
        <dd class="row">
          <State of={account.status} />
          {history.data && (
            <>
              {' '}
              <span class="quiet small">since</span> <Time at={changed?.at ?? account.created_at} />
            </>
          )}
        </dd>
        <dt>In sync</dt>
        <dd>
          <Time at={account.last_synced_at} none="not yet" />
        </dd>
        <dt>Followed</dt>
        <dd>
          <Following account={account} />
        </dd>
        <dt>Incoming</dt>
        <dd>
          {mail.imap_host}:{mail.imap_port} <span class="quiet">{mail.imap_encryption}</span>
        </dd>
        <dt>Outgoing</dt>
        <dd>
          {mail.smtp_host}:{mail.smtp_port} <span class="quiet">{mail.smtp_encryption}</span>
        </dd>
        <dt>Stored folders</dt>
        <dd class="row">
          {choiceText(account.folders)}
          <Allowed to="change">
            <button type="button" class="button small" onClick={chooseFolders}>
              Choose folders
            </button>
          </Allowed>
        </dd>
        <dt>Id</dt>
        <dd>
          <code>{account.id}</code>
        </dd>
        <dt>More</dt>
        <dd class="row">
          <Link href={`/deliveries?account=${account.id}`}>Deliveries</Link>
          <Link href={`/events?account=${account.id}`}>Live events</Link>
          <Allowed to="seeAll">
            <Link href={`/audit?object=${account.id}`}>Audit</Link>
          </Allowed>
          {runs && (
            <a href={runs} target="_blank" rel="noopener noreferrer">
              Workflows in Temporal
            </a>
          )}
        </dd>
      </dl>
    </section>
  );
}

function Remove({ account, isLeft, close }: { account: Account; isLeft: RefObject<boolean>; close: () => void }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/accounts/{id}', { params: { path: { id: account.id } } })),
    onSuccess: async () => {
      if (!isLeft.current) navigate('/mailboxes');
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
