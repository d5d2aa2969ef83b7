import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Folder } from '../api/client.ts';
import { TextField } from '../ui/field.tsx';
import { count } from '../ui/format.ts';

/** From this number on, folders can be filtered by name. */
const MANY = 15;
/** Folders below the first level are collapsed when there are more than this. */
const OPEN_AT_MOST = 40;

/** between the names of a path */
const ABOVE = ' / ';

interface Node {
  folder: Folder;
  name: string;
  /** the names from the top, for people */
  path: string;
  children: Node[];
}

const ROLE_NAMES: Partial<Record<Folder['role'], string>> = { INBOX: 'Inbox' };

/** The name of a folder for people. */
export const nameOf = ({ role, name }: Folder) => ROLE_NAMES[role] ?? name;

/** Folders below their parents, in the order of the list. A folder whose parent is not listed is on the first level. */
function treeOf(folders: readonly Folder[]): Node[] {
  const ids = new Set(folders.map(({ id }) => id));
  const below = new Map<string | null, Folder[]>();
  for (const folder of folders) {
    const parent = folder.parent_id !== null && ids.has(folder.parent_id) ? folder.parent_id : null;
    const siblings = below.get(parent);
    if (siblings) siblings.push(folder);
    else below.set(parent, [folder]);
  }
  const childrenOf = (parent: string | null, above: string): Node[] =>
    (below.get(parent) ?? []).map((folder) => {
      const name = nameOf(folder);
      const path = above === '' ? name : `${above}${ABOVE}${name}`;
      return { folder, name, path, children: childrenOf(folder.id, path) };
    });
  return childrenOf(null, '');
}

const flat = (nodes: readonly Node[]): Node[] => nodes.flatMap((node) => [node, ...flat(node.children)]);

/** The folders with their paths, as options of a field. */
export const pathsOf = (folders: readonly Folder[]) =>
  flat(treeOf(folders)).map(({ folder, path }) => ({ value: folder.id, label: path }));

/** The folders of a mailbox as a tree, with a filter where there are many. */
export function FolderTree({
  folders,
  here,
  go,
}: {
  folders: readonly Folder[];
  /** id of the folder that is shown; empty: all mail */
  here: string;
  go: (id: string) => void;
}) {
  const [filter, setFilter] = useState('');
  const words = filter.trim().toLowerCase();
  const tree = treeOf(folders);
  const found = flat(tree).filter(({ path }) => path.toLowerCase().includes(words));
  return (
    <>
      {folders.length >= MANY && (
        <TextField label="Find a folder" type="search" placeholder="Name" value={filter} set={setFilter} />
      )}
      <ul>
        {words === '' && <FolderItem name="All mail" isHere={here === ''} go={() => go('')} />}
        {words !== '' &&
          found.map(({ folder, name, path }) => (
            <FolderItem
              key={folder.id}
              name={name}
              title={path}
              above={path.slice(0, -name.length - ABOVE.length)}
              folder={folder}
              isHere={here === folder.id}
              go={() => go(folder.id)}
            />
          ))}
        {words === '' && <Branches nodes={tree} here={here} go={go} isOpen={folders.length <= OPEN_AT_MOST} />}
      </ul>
      {words !== '' && found.length === 0 && <p class="small quiet">No folder has this name.</p>}
    </>
  );
}

interface Branch {
  here: string;
  go: (id: string) => void;
  isOpen: boolean;
}

function Branches({ nodes, ...rest }: Branch & { nodes: Node[] }) {
  return (
    <>
      {nodes.map((node) => (
        <BranchItem key={node.folder.id} node={node} {...rest} />
      ))}
    </>
  );
}

function BranchItem({ node, ...rest }: Branch & { node: Node }) {
  const { folder, name, path, children } = node;
  const holdsHere = flat(children).some((one) => one.folder.id === rest.here);
  const [isOpen, setOpen] = useState(rest.isOpen || holdsHere);
  return (
    <FolderItem name={name} title={path} folder={folder} isHere={rest.here === folder.id} go={() => rest.go(folder.id)}>
      {children.length > 0 && (
        <>
          <button
            type="button"
            class="button plain small fold"
            aria-expanded={isOpen}
            aria-label={`Folders in ${path}`}
            onClick={() => setOpen(!isOpen)}
          >
            {isOpen ? '−' : '+'}
          </button>
          {isOpen && (
            <ul>
              <Branches nodes={children} {...rest} />
            </ul>
          )}
        </>
      )}
    </FolderItem>
  );
}

function FolderItem({
  name,
  title = name,
  above = '',
  folder,
  isHere,
  go,
  children,
}: {
  name: string;
  title?: string;
  /** the names of the folders above it, where they are not shown */
  above?: string;
  folder?: Folder;
  isHere: boolean;
  go: () => void;
  children?: ComponentChildren;
}) {
  const click = (event: MouseEvent) => {
    // the browser opens it in another tab or window, or saves it
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go();
  };
  return (
    <li>
      <a
        // with its path: the document's base is the overview
        href={folder ? `${location.pathname}?folder=${folder.id}` : location.pathname}
        title={title}
        onClick={click}
        {...(isHere ? { 'aria-current': 'true' } : {})}
      >
        <span>
          {name}
          {above && <span class="sub">{above}</span>}
        </span>
        {folder && (
          <span class="count">
            {folder.unread_count > 0 ? `${count(folder.unread_count)} / ` : ''}
            {count(folder.total_count)}
            <span class="visually-hidden">{folder.unread_count > 0 ? ' unread and all' : ' emails'}</span>
          </span>
        )}
      </a>
      {children}
    </li>
  );
}
