import { SelectField, TextField } from '../ui/field.tsx';
import { given, useParam } from '../ui/query.ts';
import { useDebounced } from '../ui/debounced.ts';

/** The filters that lists of emails and of conversations share. */
export interface MailFilter {
  q?: string;
  is_unread?: boolean;
  is_starred?: boolean;
  has_attachment?: boolean;
}

const SHOWN: Record<string, MailFilter> = {
  unread: { is_unread: true },
  starred: { is_starred: true },
  files: { has_attachment: true },
};

/** The filters in the address of the page. */
export function useMailFilter(): MailFilter {
  const [search] = useParam('q');
  const [show] = useParam('show');
  return { ...given({ q: useDebounced(search).trim() }), ...SHOWN[show] };
}

/** Fields for the filters. */
export function Filters() {
  const [search, setSearch] = useParam('q');
  const [show, setShow] = useParam('show');
  return (
    <>
      <div class="wide-field">
        <TextField label="Search" type="search" placeholder="Subject, text, people" value={search} set={setSearch} />
      </div>
      <SelectField
        label="Show"
        value={show}
        set={setShow}
        options={[
          { value: '', label: 'All' },
          { value: 'unread', label: 'Unread' },
          { value: 'starred', label: 'Starred' },
          { value: 'files', label: 'With files' },
        ]}
      />
    </>
  );
}
