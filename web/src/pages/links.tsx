import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { Allowed } from '../access/may.tsx';
import { api, type AuthLink, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { Confirm, DialogForm, ShowOnce } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { Empty, Listed, Page, Pager, State, Time } from '../ui/parts.tsx';
import { given, useOffset, useParam } from '../ui/query.ts';
import { useShown } from '../ui/shown.ts';

const SIZE = 50;
const STATUSES = ['open', 'used', 'cancelled', 'expired'] as const;
const LINKS = ['auth-links'];

/** Links to the connect page, with their status. */
export function LinksPage() {
  const [status, setStatus] = useParam('status', 'open');
  const [account] = useParam('account');
  const [offset, setOffset] = useOffset();
  const { shown, show, close } = useShown<{ kind: 'create' } | { kind: 'revoke'; link: AuthLink }>();
  const query = given({ status: STATUSES.find((one) => one === status), account_id: account, offset, limit: SIZE });
  const list = useQuery({
    queryKey: [...LINKS, query],
    queryFn: () => take(api.GET('/api/v1/auth/links', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 5_000,
  });
  const create = (
    <Allowed to="manage">
      <button type="button" class="button main-action" onClick={() => show({ kind: 'create' })}>
        Create a link
      </button>
    </Allowed>
  );
  return (
    <Page
      title="Connect links"
      intro="Owners connect their mailbox by a link, and you never see their password."
      up={{ href: '/mailboxes', label: 'Mailboxes' }}
      actions={create}
    >
      <section class="card" aria-label="Links">
        <div class="filters" role="search">
          <SelectField
            label="State"
            value={status}
            set={setStatus}
            options={[
              { value: 'open', label: 'Waiting' },
              { value: 'used', label: 'Connected' },
              { value: 'cancelled', label: 'Cancelled' },
              { value: 'expired', label: 'Expired' },
              { value: 'all', label: 'All' },
            ]}
          />
        </div>
        <Listed
          list={list}
          empty={
            <Empty title={status === 'open' ? 'No link is waiting for its owner' : 'No such link'}>
              Create one and send it to the owner of a mailbox. Links are listed until a week after they expire.
            </Empty>
          }
        >
          {(links) => <Table links={links} revoke={(link) => show({ kind: 'revoke', link })} />}
        </Listed>
        <Pager list={list} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {shown?.kind === 'create' && <Create account={account} close={close} />}
      {shown?.kind === 'revoke' && <Revoke link={shown.link} close={close} />}
    </Page>
  );
}

const TITLES: Record<AuthLink['status'], string> = {
  open: 'waiting',
  used: 'connected',
  cancelled: 'cancelled',
  expired: 'expired',
};
const COLOURS: Record<AuthLink['status'], string> = { open: 'pending', used: 'completed', cancelled: '', expired: '' };

function Table({ links, revoke }: { links: AuthLink[]; revoke: (link: AuthLink) => void }) {
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Link</th>
            <th scope="col">State</th>
            <th scope="col">Mailbox</th>
            <th scope="col">Goes back to</th>
            <th scope="col">Created</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {links.map((link) => (
            <tr key={link.id}>
              <td>
                <span class="strong clip">{link.name ?? link.state ?? 'Unnamed'}</span>
                <span class="sub nowrap">
                  <code title={link.id}>lnk_…{link.id.slice(-6)}</code>
                  {link.name !== null && link.state !== null && ` · ${link.state.slice(0, 30)}`}
                </span>
              </td>
              <td class="first">
                <State of={COLOURS[link.status]} label={TITLES[link.status]} />
              </td>
              <td data-label="Mailbox">
                <Mailbox link={link} />
              </td>
              <td data-label="Goes back to">
                <span class="clip" dir="auto" title={link.redirect_url ?? ''}>
                  {link.redirect_url === null ? '–' : new URL(link.redirect_url).host}
                </span>
              </td>
              <td data-label="Created">
                <Time at={link.created_at} />
              </td>
              <td data-label="Expires">
                <Time at={link.expires_at} />
              </td>
              <td>
                {link.status === 'open' && (
                  <Allowed to="manage">
                    <button type="button" class="button small danger" onClick={() => revoke(link)}>
                      Revoke<span class="visually-hidden"> {link.name ?? link.id}</span>
                    </button>
                  </Allowed>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Mailbox({ link }: { link: AuthLink }) {
  const id = link.connected_account_id ?? link.account_id;
  if (id === null) return <span class="quiet">any</span>;
  return (
    <Link href={`/mailboxes/${id}`} title={id}>
      acc_…{id.slice(-6)}
    </Link>
  );
}

const HOUR_S = 3_600;
const LIVES = [
  { value: String(HOUR_S), label: 'In an hour' },
  { value: String(24 * HOUR_S), label: 'In a day' },
  { value: String(7 * 24 * HOUR_S), label: 'In 7 days' },
  { value: String(30 * 24 * HOUR_S), label: 'In 30 days' },
];

function Create({ account, close }: { account: string; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [redirect, setRedirect] = useState('');
  const [state, setState] = useState('');
  const [life, setLife] = useState(String(24 * HOUR_S));
  const once = useOnce();
  const create = useMutation({
    mutationFn: () => {
      const body = {
        ...given({ name: name.trim(), redirect_url: redirect.trim(), state, account_id: account }),
        expires_in: Number(life),
      };
      return once(body, (headers) => api.POST('/api/v1/auth/links', { headers, body }));
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: LINKS }),
  });
  if (create.data)
    return (
      <ShowOnce title="The new link" value={create.data.url} label="Link" close={close}>
        It is shown this once. Send it to the owner of the mailbox: it works once.
      </ShowOnce>
    );
  return (
    <DialogForm
      title="Create a link"
      action="Create it"
      busy={create.isPending}
      showsOnce
      error={create.error}
      submit={() => create.mutate()}
      close={close}
    >
      <TextField label="Name of the mailbox" maxLength={255} help="Left out: its address." value={name} set={setName} />
      <SelectField label="Expires" value={life} set={setLife} options={LIVES} />
      <TextField
        label="Sent back to"
        type="url"
        placeholder="https://"
        maxLength={2048}
        help="Where the owner goes afterwards; left out: the page says that all is done."
        value={redirect}
        set={setRedirect}
      />
      <TextField
        label="Your reference"
        maxLength={1000}
        help="Comes back with the owner and in account.add."
        value={state}
        set={setState}
      />
    </DialogForm>
  );
}

function Revoke({ link, close }: { link: AuthLink; close: () => void }) {
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/auth/links/{id}', { params: { path: { id: link.id } } })),
    onSuccess: async () => {
      close();
      await queries.invalidateQueries({ queryKey: LINKS });
    },
  });
  return (
    <Confirm
      title="Revoke this link?"
      action="Revoke it"
      busy={revoke.isPending}
      error={revoke.error}
      confirm={() => revoke.mutate()}
      close={close}
    >
      The link stops working. A mailbox that it connected remains connected.
    </Confirm>
  );
}
