import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { type Account, api, take } from '../api/client.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { AreaField } from '../ui/field.tsx';
import { toast } from '../ui/toast.tsx';

type Choice = NonNullable<Account['folders']>;

/** The stored folders of a mailbox, in words. */
export function choiceText(choice: Account['folders']): string {
  const { include, exclude } = choice ?? {};
  const only = include ? include.join(', ') : 'all';
  return exclude ? `${only}, except ${exclude.join(', ')}` : only;
}

/** One on each line: the path of a folder may have commas. */
const entriesOf = (text: string) =>
  text
    .split('\n')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');

/** Chooses which folders of a mailbox are stored. */
export function FolderChoice({ account, close }: { account: Account; close: () => void }) {
  const client = useQueryClient();
  const [include, setInclude] = useState((account.folders?.include ?? []).join('\n'));
  const [exclude, setExclude] = useState((account.folders?.exclude ?? []).join('\n'));
  const save = useMutation({
    mutationFn: () => {
      const [only, none] = [entriesOf(include), entriesOf(exclude)];
      const choice: Choice = {
        ...(only.length > 0 ? { include: only } : {}),
        ...(none.length > 0 ? { exclude: none } : {}),
      };
      const folders = Object.keys(choice).length > 0 ? choice : null;
      return take(api.PATCH('/api/v1/accounts/{id}', { params: { path: { id: account.id } }, body: { folders } }));
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['account', account.id] });
      toast('The choice of folders is saved');
      close();
    },
  });
  return (
    <DialogForm
      title="Stored folders"
      action="Save"
      busy={save.isPending}
      error={save.error}
      submit={() => save.mutate()}
      close={close}
    >
      <p>
        Roles (<code>SPAM</code>) or paths (<code>Projects/2026</code>), one on each line; <code>*</code> stands for any
        characters. Subfolders are covered too.
      </p>
      <AreaField label="Only these" rows={3} value={include} set={setInclude} placeholder="all" />
      <AreaField
        label="None of these"
        rows={3}
        value={exclude}
        set={setExclude}
        placeholder="none"
        help="Excluded folders are deleted here with their mail. The mailbox itself does not change."
      />
    </DialogForm>
  );
}
