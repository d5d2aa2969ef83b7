import { keepPreviousData, useQuery } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { api, take } from '../api/client.ts';
import { useDebounced } from '../ui/debounced.ts';
import { TextField } from '../ui/field.tsx';
import { Problem } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';

export interface Picked {
  id: string;
  name: string;
}

/** Most results that a search shows. */
const SHOWN = 8;

/** Selects mailboxes by search. */
export function PickMailboxes({ picked, pick }: { picked: Picked[]; pick: (picked: Picked[]) => void }) {
  const [search, setSearch] = useState('');
  const query = given({ search: useDebounced(search), limit: SHOWN });
  const found = useQuery({
    queryKey: ['accounts', query],
    queryFn: () => take(api.GET('/api/v1/accounts', { params: { query } })),
    placeholderData: keepPreviousData,
  });
  const has = (id: string) => picked.some((one) => one.id === id);
  const toggle = ({ id, name }: Picked) =>
    pick(has(id) ? picked.filter((one) => one.id !== id) : [...picked, { id, name }]);
  const others = (found.data?.data ?? []).filter(({ id }) => !has(id));
  return (
    <fieldset class="stack-s">
      <legend class="visually-hidden">Mailboxes of the key</legend>
      <TextField label="Find a mailbox" type="search" placeholder="Name or id" value={search} set={setSearch} />
      <Problem error={found.error} />
      <div class="checks">
        {[...picked, ...others].map((account) => (
          <label class="check" key={account.id}>
            <input type="checkbox" checked={has(account.id)} onChange={() => toggle(account)} />
            <span class="clip" dir="auto">
              {account.name}
            </span>
          </label>
        ))}
        {found.data && picked.length + others.length === 0 && <span class="small quiet">No mailbox fits.</span>}
      </div>
      <p class="small quiet" role="status">
        {picked.length} picked{found.data?.has_more ? '; search for more' : ''}
      </p>
    </fieldset>
  );
}
