import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { Allowed, SESSION } from '../access/may.tsx';
import { api, type ApiKey, type Session, take } from '../api/client.ts';
import { Confirm, Dialog } from '../ui/dialog.tsx';
import { Badge, Empty, Listed, Notice, Page, Pager, Time } from '../ui/parts.tsx';
import { given, useOffset, useParam } from '../ui/query.ts';
import { useShown } from '../ui/shown.ts';
import { CreateKey } from './create-key.tsx';

const SIZE = 50;
export const KEYS = ['api-keys'];

export function KeysPage() {
  const [offset, setOffset] = useOffset();
  const [creator, setCreator] = useParam('created_by');
  const { shown, show, close } = useShown<{ kind: 'create' } | { kind: 'revoke' | 'mailboxes'; key: ApiKey }>();
  const query = given({ created_by: creator, offset, limit: SIZE });
  const keys = useQuery({
    queryKey: [...KEYS, query],
    queryFn: () => take(api.GET('/api/v1/api-keys', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
  return (
    <Page
      title="Keys"
      intro="Who may call the API, and what each of them may do."
      actions={
        <>
          <Link href="/keys/people" class="button">
            People
          </Link>
          <Allowed to="administer">
            <button type="button" class="button main-action" onClick={() => show({ kind: 'create' })}>
              Create a key
            </button>
          </Allowed>
        </>
      }
    >
      {creator !== '' && (
        <Notice tone="idle" title="Only keys that one key created">
          <code>{creator}</code>{' '}
          <button type="button" class="button plain small" onClick={() => setCreator('')}>
            Show all keys
          </button>
        </Notice>
      )}
      <section class="card" aria-label="Keys">
        <Listed
          list={keys}
          empty={
            <Empty title={creator === '' ? 'No more keys' : 'It created no key'}>Go back, or show all keys.</Empty>
          }
        >
          {(rows) => (
            <Table
              keys={rows}
              revoke={(key) => show({ kind: 'revoke', key })}
              showMailboxes={(key) => show({ kind: 'mailboxes', key })}
            />
          )}
        </Listed>
        <Pager list={keys} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {shown?.kind === 'create' && <CreateKey close={close} />}
      {shown?.kind === 'revoke' && <Revoke apiKey={shown.key} close={close} />}
      {shown?.kind === 'mailboxes' && <Mailboxes apiKey={shown.key} close={close} />}
    </Page>
  );
}

const ACCESS = { full: 'everything', operate: 'all but keys and people', read: 'read only' };

interface Actions {
  revoke: (key: ApiKey) => void;
  showMailboxes: (key: ApiKey) => void;
}

function Table({ keys, ...actions }: { keys: ApiKey[] } & Actions) {
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Access</th>
            <th scope="col">Mailboxes</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">Created</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <Row key={key.id} apiKey={key} creator={keys.find(({ id }) => id === key.created_by)} {...actions} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ apiKey, creator, revoke, showMailboxes }: { apiKey: ApiKey; creator: ApiKey | undefined } & Actions) {
  const { id, name, prefix, permissions, accounts, last_used_at, expires_at, issued_at, created_by } = apiKey;
  return (
    <tr>
      <td>
        <Link href={`/audit?key=${id}`} class="strong" title="What was done with it">
          <span class="clip" dir="auto">
            {name}
          </span>
        </Link>
        <span class="sub nowrap">
          <code>{prefix}…</code>
        </span>
      </td>
      <td class="first">
        <Badge tone={permissions === 'read' ? 'idle' : 'good'}>{ACCESS[permissions]}</Badge>
      </td>
      <td class="nowrap" data-label="Mailboxes">
        {accounts === null ? (
          'all'
        ) : (
          <button type="button" class="button plain small" onClick={() => showMailboxes(apiKey)}>
            {accounts.length === 1 ? '1 mailbox' : `${accounts.length} mailboxes`}
            <span class="visually-hidden"> of {name}</span>
          </button>
        )}
      </td>
      <td data-label="Last used">
        <Time at={last_used_at} none="never" />
      </td>
      <td data-label="Expires">
        {expires_at !== null && new Date(expires_at).getTime() <= Date.now() ? (
          <Badge tone="bad">expired</Badge>
        ) : (
          <Time at={expires_at} none="never" />
        )}
      </td>
      <td data-label="Created">
        <Time at={issued_at} />
        {created_by !== null && (
          <span class="sub">by {creator ? creator.name : <code>…{created_by.slice(-6)}</code>}</span>
        )}
      </td>
      <td>
        <Allowed to="administer">
          <button type="button" class="button small danger" onClick={() => revoke(apiKey)}>
            Revoke<span class="visually-hidden"> {name}</span>
          </button>
        </Allowed>
      </td>
    </tr>
  );
}

const SHOWN_MAILBOXES = 100;

/** The mailboxes that a key is limited to. */
function Mailboxes({ apiKey, close }: { apiKey: ApiKey; close: () => void }) {
  const ids = apiKey.accounts ?? [];
  return (
    <Dialog title={`Mailboxes of ${apiKey.name}`} close={close}>
      <p class="quiet">For this key there are no others.</p>
      <ul class="picked">
        {ids.slice(0, SHOWN_MAILBOXES).map((id) => (
          <li key={id}>
            <Link href={`/mailboxes/${id}`}>
              <MailboxName id={id} />
            </Link>
          </li>
        ))}
      </ul>
      {ids.length > SHOWN_MAILBOXES && <p class="quiet">And {ids.length - SHOWN_MAILBOXES} more.</p>}
    </Dialog>
  );
}

function MailboxName({ id }: { id: string }) {
  const account = useQuery({
    queryKey: ['account', id],
    queryFn: () => take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } })),
    retry: false,
    staleTime: 60_000,
  });
  return <>{account.data?.name ?? id}</>;
}

function Revoke({ apiKey, close }: { apiKey: ApiKey; close: () => void }) {
  const queries = useQueryClient();
  const isOwn = queries.getQueryData<Session>(SESSION)?.api_key_id === apiKey.id;
  const revoke = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/api-keys/{id}', { params: { path: { id: apiKey.id } } })),
    onSuccess: async () => {
      close();
      await queries.invalidateQueries({ queryKey: KEYS });
    },
  });
  return (
    <Confirm
      title={`Revoke ${apiKey.name}?`}
      action="Revoke it"
      busy={revoke.isPending}
      error={revoke.error}
      confirm={() => revoke.mutate()}
      close={close}
    >
      {isOwn && (
        <Notice tone="warn" title="You are signed in with this key">
          You will be signed out, and need another key to come back.
        </Notice>
      )}
      <p>Calls with it are rejected immediately, its sessions are signed out, and its connect links stop working.</p>
      <p>
        Keys created with it remain valid:{' '}
        <Link href={`/keys?created_by=${apiKey.id}`} onClick={close}>
          see them
        </Link>
        .
      </p>
    </Confirm>
  );
}
