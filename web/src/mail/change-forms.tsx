import { useState } from 'preact/hooks';
import { DialogForm } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import type { Change } from './changes.ts';
import { pathsOf } from './folder-tree.tsx';
import { useFolders } from './use-folders.ts';

interface Form {
  busy?: boolean;
  error?: unknown;
  submit: (change: Change) => void;
  close: () => void;
}

/** Asks for labels to set and to remove. */
export function LabelsForm({ labels, busy = false, error, submit, close }: Form & { labels: readonly string[] }) {
  const [added, setAdded] = useState('');
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const add = added.split(/[\s,]+/).filter((one) => one !== '');
  const toggle = (label: string) => {
    const next = new Set(removed);
    if (!next.delete(label)) next.add(label);
    setRemoved(next);
  };
  return (
    <DialogForm
      title="Labels"
      action="Change the labels"
      busy={busy}
      incomplete={add.length + removed.size === 0}
      error={error}
      submit={() => submit({ keywords: { add, remove: [...removed] } })}
      close={close}
    >
      <TextField
        label="Add"
        placeholder="invoice-paid"
        help="IMAP keywords, which other mail programs see too. Blanks separate several."
        value={added}
        set={setAdded}
      />
      {labels.length > 0 && (
        <fieldset class="stack-s">
          <legend>Remove</legend>
          <div class="checks">
            {labels.map((label) => (
              <label key={label} class="check">
                <input type="checkbox" checked={removed.has(label)} onChange={() => toggle(label)} />
                {label}
              </label>
            ))}
          </div>
        </fieldset>
      )}
    </DialogForm>
  );
}

/** Asks for the folder to move to. */
export function MoveForm({ account, busy = false, error, submit, close }: Form & { account: string }) {
  const [folder, setFolder] = useState('');
  const folders = useFolders(account);
  const options = pathsOf((folders.data?.data ?? []).filter(({ role }) => role !== 'DRAFTS'));
  return (
    <DialogForm
      title="Move"
      action="Move"
      busy={busy}
      incomplete={folder === ''}
      error={error ?? folders.error}
      submit={() => submit({ folders_ids: [folder] })}
      close={close}
    >
      <SelectField
        label="To the folder"
        value={folder}
        set={setFolder}
        options={[{ value: '', label: 'Choose a folder' }, ...options]}
      />
    </DialogForm>
  );
}
