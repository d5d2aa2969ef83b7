import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { api, type ApiKey, take } from '../api/client.ts';
import { Confirm, Dialog } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { Copyable, Loading, Notice, Page, Pager, Problem, Time } from '../ui/parts.tsx';
import { useOffset } from '../ui/query.ts';

const SIZE = 50;
const KEYS = ['api-keys'];

export function KeysPage() {
  const [offset, setOffset] = useOffset();
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey>();
  const keys = useQuery({
    queryKey: [...KEYS, offset],
    queryFn: () => take(api.GET('/api/v1/api-keys', { params: { query: { offset, limit: SIZE } } })),
  });
  return (
    <Page
      title="Keys"
      intro="Who may call the API."
      actions={
        <button type="button" class="button main-action" onClick={() => setCreating(true)}>
          Create a key
        </button>
      }
    >
      <section class="card" aria-label="Keys">
        {keys.isPending && <Loading />}
        {keys.error && (
          <div class="card-body">
            <Problem error={keys.error} retry={() => void keys.refetch()} />
          </div>
        )}
        {keys.data && <Table keys={keys.data.data} revoke={setRevoking} />}
        <Pager
          offset={offset}
          size={SIZE}
          shown={keys.data?.data.length ?? 0}
          hasMore={keys.data?.has_more ?? false}
          go={setOffset}
        />
      </section>
      {creating && <Create close={() => setCreating(false)} />}
      {revoking && <Revoke apiKey={revoking} close={() => setRevoking(undefined)} />}
    </Page>
  );
}

function Table({ keys, revoke }: { keys: ApiKey[]; revoke: (key: ApiKey) => void }) {
  return (
    <div class="table-wrap" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Begins with</th>
            <th scope="col">Role</th>
            <th scope="col">Created</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id}>
              <td>
                <span class="strong">{key.name}</span>
                <span class="sub nowrap">{key.id}</span>
              </td>
              <td>
                <code>{key.prefix}</code>
              </td>
              <td>{key.role}</td>
              <td>
                <Time at={key.issued_at} />
              </td>
              <td>
                <Time at={key.last_used_at} none="never" />
              </td>
              <td>
                <Time at={key.expires_at} none="never" />
              </td>
              <td>
                <button type="button" class="button small danger" onClick={() => revoke(key)}>
                  Revoke<span class="visually-hidden"> {key.name}</span>
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const DAY_MS = 86_400_000;
const LIVES = [
  { value: '', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
];

function Create({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [days, setDays] = useState('90');
  const create = useMutation({
    mutationFn: () => {
      const expires_at = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
      return take(api.POST('/api/v1/api-keys', { body: { name: name.trim(), expires_at } }));
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: KEYS }),
  });
  if (create.data)
    return (
      <Dialog title="The new key" close={close}>
        <Notice tone="warn" title="Copy it now">
          It is shown this once, and is stored nowhere.
        </Notice>
        <Copyable value={create.data.api_key} label="Key" />
        <div class="dialog-foot">
          <button type="button" class="button main-action" onClick={close}>
            I have copied it
          </button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="Create a key" close={close}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <TextField label="Name" required maxLength={100} help="Who uses it, and for what." value={name} set={setName} />
        <SelectField label="Expires" value={days} set={setDays} options={LIVES} />
        <Problem error={create.error} />
        <div class="dialog-foot">
          <button type="button" class="button" onClick={close}>
            Cancel
          </button>
          <button class="button main-action" disabled={create.isPending}>
            Create it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Revoke({ apiKey, close }: { apiKey: ApiKey; close: () => void }) {
  const queries = useQueryClient();
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
      Calls with it are refused at once, and whoever is signed in with it is signed out.
    </Confirm>
  );
}
