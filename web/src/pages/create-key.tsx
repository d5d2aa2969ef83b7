import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { api } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { DialogForm, ShowOnce } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { type Picked, PickMailboxes } from './pick-mailboxes.tsx';
import { isoOf } from '../ui/query.ts';

const DAY_MS = 86_400_000;
const LIVES = [
  { value: '', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
  { value: 'date', label: 'At a time …' },
];
const PERMISSIONS = [
  { value: 'full', label: 'Everything' },
  { value: 'operate', label: 'Everything but keys and people' },
  { value: 'read', label: 'Reading only' },
] as const;
const SCOPES = [
  { value: 'all', label: 'All, also later ones' },
  { value: 'some', label: 'Some of them …' },
];

/** `from`: when the form was opened, ms, since a repeated call must say the same. */
function expiryOf(life: string, date: string, from: number): string | null {
  if (life === '') return null;
  const at = life === 'date' ? new Date(isoOf(date) ?? '') : new Date(from + Number(life) * DAY_MS);
  return at.toISOString();
}

/** Creates a key, and shows it once. */
export function CreateKey({ close }: { close: () => void }) {
  const [made, setMade] = useState<string>();
  if (made === undefined) return <Form close={close} done={setMade} />;
  return (
    <ShowOnce title="The new key" value={made} label="Key" close={close}>
      It is shown this once, and is stored nowhere.
    </ShowOnce>
  );
}

function Form({ close, done }: { close: () => void; done: (key: string) => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [life, setLife] = useState('90');
  const [date, setDate] = useState('');
  const [permissions, setPermissions] = useState<string>('full');
  const [scope, setScope] = useState('all');
  const [picked, setPicked] = useState<Picked[]>([]);
  const [opened] = useState(Date.now);
  const once = useOnce();
  const create = useMutation({
    mutationFn: () => {
      const body = {
        name: name.trim(),
        expires_at: expiryOf(life, date, opened),
        permissions: PERMISSIONS.find(({ value }) => value === permissions)?.value ?? 'read',
        accounts: scope === 'all' ? null : picked.map(({ id }) => id),
      };
      return once(body, (headers) => api.POST('/api/v1/api-keys', { headers, body }));
    },
    onSuccess: async ({ api_key }) => {
      done(api_key);
      await queries.invalidateQueries({ queryKey: ['api-keys'] });
    },
  });
  const lacksMailbox = scope === 'some' && picked.length === 0;
  return (
    <DialogForm
      title="Create a key"
      action="Create it"
      incomplete={lacksMailbox}
      busy={create.isPending}
      showsOnce
      error={create.error}
      submit={() => create.mutate()}
      close={close}
    >
      <TextField label="Name" required maxLength={100} help="Who uses it, and for what." value={name} set={setName} />
      <div class="pair">
        <SelectField label="May do" value={permissions} set={setPermissions} options={PERMISSIONS} />
        <SelectField label="Expires" value={life} set={setLife} options={LIVES} />
      </div>
      {life === 'date' && <TextField label="Expires at" type="datetime-local" required value={date} set={setDate} />}
      <SelectField label="Mailboxes" value={scope} set={setScope} options={SCOPES} />
      {scope === 'some' && (
        <>
          <PickMailboxes picked={picked} pick={setPicked} />
          <p class="small quiet">
            For this key there are no other mailboxes. It manages no keys, endpoints, replays or connect links.
          </p>
        </>
      )}
    </DialogForm>
  );
}
