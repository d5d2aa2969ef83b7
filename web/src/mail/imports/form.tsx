import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { api } from '../../api/client.ts';
import { useOnce } from '../../api/once.ts';
import { DialogForm } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { given, isoOf } from '../../ui/query.ts';
import { toast } from '../../ui/toast.tsx';
import { pathsOf } from '../folder-tree.tsx';
import { useFolders } from '../use-folders.ts';

/** Starts an import of mail from before the connect. */
export function ImportForm({ account, close }: { account: string; close: () => void }) {
  const queries = useQueryClient();
  const folders = useFolders(account);
  const [since, setSince] = useState('');
  const [until, setUntil] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const once = useOnce();
  const start = useMutation({
    mutationFn: () => {
      const params = { path: { id: account } };
      const body = {
        ...given({ since: isoOf(`${since}T00:00`), until: isoOf(`${until}T00:00`) }),
        ...(chosen.size > 0 ? { folders: [...chosen] } : {}),
      };
      return once(body, (headers) => api.POST('/api/v1/accounts/{id}/imports', { params, headers, body }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['imports', account] });
      toast('The import has begun');
      close();
    },
  });
  return (
    <DialogForm
      title="Import older mail"
      action="Import"
      busy={start.isPending}
      error={start.error ?? folders.error}
      submit={() => start.mutate()}
      close={close}
    >
      <p>Stores mail from before the mailbox was connected, newest first. New mail arrives as before.</p>
      <div class="pair">
        <TextField label="Since" type="date" help="Empty: from the beginning" value={since} set={setSince} />
        <TextField label="Until" type="date" help="Empty: until the connect" value={until} set={setUntil} />
      </div>
      <fieldset class="stack-s">
        <legend>Folders (none ticked: all)</legend>
        <div class="checks" tabIndex={0} role="group" aria-label="Folders">
          {pathsOf(folders.data?.data ?? []).map(({ value, label }) => (
            <label key={value} class="check">
              <input type="checkbox" checked={chosen.has(value)} onChange={() => toggle(value)} />
              {label}
            </label>
          ))}
        </div>
      </fieldset>
    </DialogForm>
  );
}
