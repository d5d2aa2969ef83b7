import type { Folder } from '../api/client.ts';
import { Choice } from '../ui/choice.tsx';
import { Loading, Problem } from '../ui/parts.tsx';
import { useParam } from '../ui/query.ts';
import { EmailList } from './email-list.tsx';
import { Filters, useMailFilter } from './filters.tsx';
import { FolderTree, nameOf } from './folder-tree.tsx';
import { ThreadList } from './thread-list.tsx';
import { useFolders } from './use-folders.ts';

const VIEWS = [
  { value: '', label: 'Emails' },
  { value: 'threads', label: 'Conversations' },
];

const folderName = (folders: Folder[] | undefined, id: string) => {
  const folder = folders?.find((one) => one.id === id);
  return folder ? nameOf(folder) : 'All mail';
};

/** The mail of a mailbox: its folders, beside its emails or conversations. */
export function MailboxMail({ account }: { account: string }) {
  const [folder, setFolder] = useParam('folder');
  const [view, setView] = useParam('view');
  const filter = useMailFilter();
  const folders = useFolders(account);
  const List = view === 'threads' ? ThreadList : EmailList;
  return (
    <div class="mailbox">
      <nav class="card folders" aria-label="Folders">
        <Problem error={folders.error} />
        {folders.isPending && <Loading />}
        <FolderTree folders={folders.data?.data ?? []} here={folder} go={setFolder} />
      </nav>
      <section class="card" aria-label={view === 'threads' ? 'Conversations' : 'Emails'}>
        <div class="card-head">
          <h2>{folderName(folders.data?.data, folder)}</h2>
          <Choice label="List" options={VIEWS} value={view} set={setView} />
        </div>
        <div class="filters" role="search">
          <Filters />
        </div>
        <List key={folder} account={account} folder={folder} filter={filter} />
      </section>
    </div>
  );
}
