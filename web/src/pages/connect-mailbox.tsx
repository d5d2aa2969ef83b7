import { useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { ConnectForm, type Credentials } from '../connect/form.tsx';
import { useLeft } from '../ui/left.ts';
import { Copyable, Loading, Page, Problem, State } from '../ui/parts.tsx';
import { useParam } from '../ui/query.ts';
import { toast } from '../ui/toast.tsx';

/** Connects a mailbox; `account` in the query reconnects that one. */
export function ConnectPage() {
  const [account] = useParam('account');
  return account === '' ? <New /> : <Again id={account} />;
}

const findServers = (address: string) => take(api.GET('/api/v1/auth/servers', { params: { query: { address } } }));

function useConnect(accountId?: string): (credentials: Credentials, days?: number) => Promise<void> {
  const [, navigate] = useLocation();
  const isLeft = useLeft();
  const queries = useQueryClient();
  return async (credentials, days) => {
    const body = {
      provider: 'imap' as const,
      credentials,
      ...(accountId === undefined ? {} : { account_id: accountId }),
      ...(days ? { config: { initial_sync_enable: true, initial_sync_days: days } } : {}),
    };
    const { id, name } = await take(api.POST('/api/v1/auth/intent', { body }));
    await queries.invalidateQueries({ queryKey: ['accounts'] });
    toast(`${name} is connected`);
    if (!isLeft.current) navigate(`/mailboxes/${id}`);
  };
}

const WHEN_CLOSED = 'If an OAuth app is registered for the provider, its owner can sign in there through a link.';

function New() {
  const connect = useConnect();
  const [days, setDays] = useState(7);
  return (
    <Page
      title="Connect a mailbox"
      intro="Both logins are tried before anything is saved."
      up={{ href: '/mailboxes', label: 'Mailboxes' }}
    >
      <div class="grid-2">
        <section class="card pad stack" aria-label="Login">
          <ConnectForm
            findServers={findServers}
            connect={(credentials) => connect(credentials, days)}
            action="Connect mailbox"
            program="Email API"
            whenClosed={WHEN_CLOSED}
            isTechnical
          >
            <label class="check">
              <input
                type="checkbox"
                checked={days > 0}
                onChange={(event) => setDays(event.currentTarget.checked ? 7 : 0)}
              />
              Import the mail of the last {days || 7} days
            </label>
            {days > 0 && (
              <input
                type="range"
                min={1}
                max={30}
                value={days}
                aria-label="Days to import"
                onInput={(event) => setDays(Number(event.currentTarget.value))}
              />
            )}
          </ConnectForm>
        </section>
        <LinkCard />
      </div>
    </Page>
  );
}

function Again({ id }: { id: string }) {
  const connect = useConnect(id);
  const account = useQuery({
    queryKey: ['account', id],
    queryFn: () => take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } })),
  });
  const { user_id: address, connection_params: login } = account.data ?? {};
  const found = useQuery({
    queryKey: ['servers', address],
    queryFn: () => findServers(address ?? ''),
    enabled: address !== undefined,
    retry: false,
  }).data;
  // of that provider, unless the mailbox is elsewhere
  const help = found?.imap?.host === login?.mail.imap_host ? found : undefined;
  return (
    <Page
      title="Reconnect"
      intro="With the new password. The servers stay the same."
      up={{ href: `/mailboxes/${id}`, label: account.data?.name ?? 'Mailbox' }}
    >
      <div class="grid-2">
        <section class="card pad stack" aria-label="Login">
          {account.isPending && <Loading />}
          <Problem error={account.error} />
          {account.data && (
            <>
              <div class="row">
                <State of={account.data.status} />
                <span class="quiet">{account.data.status_detail}</span>
              </div>
              <ConnectForm
                address={account.data.connection_params.mail.imap_user}
                findServers={findServers}
                connect={(credentials) => connect(credentials)}
                known={help}
                action="Reconnect"
                program="Email API"
                whenClosed={WHEN_CLOSED}
                isTechnical
              />
            </>
          )}
        </section>
        <Allowed to="manage">
          <LinkCard account={id} />
        </Allowed>
      </div>
    </Page>
  );
}

/** The alternative: a link for the owner, who enters the password. */
function LinkCard({ account }: { account?: string }) {
  const [url, setUrl] = useState<string>();
  const [error, setError] = useState<unknown>();
  const once = useOnce();
  const make = () => {
    setError(undefined);
    const body = account === undefined ? {} : { account_id: account };
    once(body, (headers) => api.POST('/api/v1/auth/links', { headers, body })).then(
      (link) => setUrl(link.url),
      setError,
    );
  };
  return (
    <section class="card pad stack" aria-label="A link for the owner">
      <h2>Not your mailbox?</h2>
      <p class="quiet">
        Send its owner a link. They type their password on a page of this service, and you never see it. It works once,
        for a day.
      </p>
      <Problem error={error} />
      {url ? (
        <Copyable value={url} label="Link" />
      ) : (
        <div class="row">
          <button type="button" class="button" onClick={make}>
            Create a link
          </button>
          <Link href="/mailboxes/links">Links that wait for their owner</Link>
        </div>
      )}
    </section>
  );
}
