import { keepPreviousData, useQuery } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { type Account, api, take } from '../api/client.ts';
import { ImportBadge } from '../mail/imports/list.tsx';
import { useUnfinished } from '../mail/imports/imports.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { Empty, Listed, Page, Pager, State, Time } from '../ui/parts.tsx';
import { given, useOffset, useParam } from '../ui/query.ts';
import { useDebounced } from '../ui/debounced.ts';
import { ConnectButton, MailboxLink, StateDetail } from './mailbox-parts.tsx';

const SIZE = 50;
const STATUSES = ['running', 'errored', 'disconnected'] as const;

export function MailboxesPage() {
  const [search, setSearch] = useParam('search');
  const [status, setStatus] = useParam('status');
  const [offset, setOffset] = useOffset();
  const wanted = useDebounced(search);
  const query = given({ search: wanted, status: STATUSES.find((one) => one === status), offset, limit: SIZE });
  const list = useQuery({
    queryKey: ['accounts', query],
    queryFn: () => take(api.GET('/api/v1/accounts', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const filtered = search !== '' || status !== '';
  return (
    <Page
      title="Mailboxes"
      intro="Every mailbox that is connected, and how it is doing."
      actions={
        <>
          <Link href="/mailboxes/search" class="button">
            Mail of all mailboxes
          </Link>
          <Allowed to="seeAll">
            <Link href="/mailboxes/apps" class="button">
              OAuth apps
            </Link>
            <Link href="/mailboxes/links" class="button">
              Connect links
            </Link>
          </Allowed>
          <ConnectButton />
        </>
      }
    >
      <section class="card" aria-label="Mailboxes">
        <div class="filters" role="search">
          <TextField label="Search" type="search" placeholder="Name or id" value={search} set={setSearch} />
          <SelectField
            label="State"
            value={status}
            set={setStatus}
            options={[{ value: '', label: 'All states' }, ...STATUSES]}
          />
        </div>
        <Listed
          list={list}
          empty={
            filtered ? (
              <Empty title="No mailbox fits">Try another name, or all states.</Empty>
            ) : (
              <Empty title="No mailbox is connected yet" action={<ConnectButton />}>
                Connect one with its address and password. Its mail arrives here, and every change goes to your
                endpoints.
              </Empty>
            )
          }
        >
          {(accounts) => <Table accounts={accounts} />}
        </Listed>
        <Pager list={list} offset={[offset, setOffset]} size={SIZE} />
      </section>
    </Page>
  );
}

function Table({ accounts }: { accounts: Account[] }) {
  const imports = useUnfinished(accounts).data?.data ?? [];
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Mailbox</th>
            <th scope="col">State</th>
            <th scope="col">In sync</th>
            <th scope="col">Server</th>
            <th scope="col">Connected</th>
          </tr>
        </thead>
        <tbody>
          {accounts.map((account) => (
            <tr key={account.id}>
              <td>
                <MailboxLink account={account} />
              </td>
              <td class="first">
                <span class="row">
                  <State of={account.status} />
                  <ImportBadge account={account} imports={imports} />
                </span>
                <StateDetail account={account} />
              </td>
              <td data-label="In sync">
                <Time at={account.last_synced_at} none="not yet" />
              </td>
              <td class="quiet" data-label="Server">
                {account.connection_params.mail.imap_host}
              </td>
              <td data-label="Connected">
                <Time at={account.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
