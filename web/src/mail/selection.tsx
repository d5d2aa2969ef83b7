import { useQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { api, type Email, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Problem } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';
import { BatchDialog, emailsText } from './batch.tsx';
import { LabelsForm, MoveForm } from './change-forms.tsx';
import { type Change, type Chosen, labelsOf, MOST_EMAILS } from './changes.ts';
import type { MailFilter } from './filters.tsx';

/** Ids that are counted per call. */
const PAGE = 250;

/** What is ticked in a list of emails: some of its rows, or all that match its filters. */
export interface Ticks {
  ids: ReadonlySet<string>;
  isAll: boolean;
}

export const NO_TICKS: Ticks = { ids: new Set(), isAll: false };

interface Listed {
  account: string;
  folder: string;
  filter: MailFilter;
}

interface Selection extends Listed {
  emails: readonly Email[];
  hasMore: boolean;
  ticks: Ticks;
  setTicks: (ticks: Ticks) => void;
}

/** The row above a list of emails: what is ticked, and what can be done with it. */
export function SelectionBar({ account, folder, filter, emails, hasMore, ticks, setTicks }: Selection) {
  const matching = useMatching({ account, folder, filter }, ticks.isAll);
  const isEachTicked = emails.length > 0 && emails.every(({ id }) => ticks.ids.has(id));
  const ids = ticks.isAll ? matching.data?.ids : [...ticks.ids];
  return (
    <div class="selection">
      <label class="check">
        <input
          type="checkbox"
          checked={isEachTicked}
          onChange={() =>
            setTicks(isEachTicked ? NO_TICKS : { ids: new Set(emails.map(({ id }) => id)), isAll: false })
          }
        />
        Choose all shown
      </label>
      <span class="small" role="status">
        {ticks.isAll ? matchingText(matching.data) : ticks.ids.size > 0 && `${count(ticks.ids.size)} chosen`}
      </span>
      {isEachTicked && hasMore && !ticks.isAll && (
        <button type="button" class="button plain small" onClick={() => setTicks({ ...ticks, isAll: true })}>
          Choose all that match the filters
        </button>
      )}
      <Problem error={ticks.isAll && matching.error} />
      {ids && ids.length > 0 && (
        <ChangeButtons
          account={account}
          chosen={{ ids }}
          counted={ids.length}
          labels={[...new Set(emails.filter(({ id }) => ticks.ids.has(id)).flatMap(labelsOf))].sort()}
          done={() => setTicks(NO_TICKS)}
        />
      )}
    </div>
  );
}

function matchingText(matching: Matching | undefined): string {
  if (!matching) return 'Counting …';
  const { ids, hasMore } = matching;
  return hasMore ? `The newest ${emailsText(ids.length)} that match` : `All ${emailsText(ids.length)} that match`;
}

interface Matching {
  ids: string[];
  /** there are others, beyond what one change can choose */
  hasMore: boolean;
}

/** The ids of all emails of a list: what is counted before a change is what it changes. */
function useMatching({ account, folder, filter }: Listed, enabled: boolean) {
  return useQuery({
    queryKey: ['matching', account, folder, filter],
    queryFn: async ({ signal }): Promise<Matching> => {
      const ids: string[] = [];
      let cursor = '';
      do {
        const query = given({ ...filter, fields: 'id', limit: PAGE, cursor });
        const page = await take(
          folder === ''
            ? api.GET('/api/v1/{account_id}/emails', { params: { path: { account_id: account }, query }, signal })
            : api.GET('/api/v1/{account_id}/folders/{folder_id}/emails', {
                params: { path: { account_id: account, folder_id: folder }, query },
                signal,
              }),
        );
        for (const { id } of page.data) ids.push(id);
        cursor = page.cursor ?? '';
      } while (cursor !== '' && ids.length < MOST_EMAILS);
      return { ids, hasMore: cursor !== '' };
    },
    enabled,
    staleTime: 0,
    gcTime: 0,
  });
}

const SIMPLE: [string, Change][] = [
  ['Read', { is_unread: false }],
  ['Unread', { is_unread: true }],
  ['Star', { is_starred: true }],
  ['Remove star', { is_starred: false }],
];

/** Buttons that change many emails. */
export function ChangeButtons(props: {
  account: string;
  chosen: Chosen;
  counted: number;
  labels: readonly string[];
  done: () => void;
  children?: ComponentChildren;
}) {
  const [form, setForm] = useState<'labels' | 'move'>();
  const [change, setChange] = useState<Change>();
  const choose = (chosen: Change) => {
    setForm(undefined);
    setChange(chosen);
  };
  const close = () => setForm(undefined);
  return (
    <div class="row">
      {SIMPLE.map(([name, made]) => (
        <button key={name} type="button" class="button small" onClick={() => choose(made)}>
          {name}
        </button>
      ))}
      <button type="button" class="button small" onClick={() => setForm('labels')}>
        Labels…
      </button>
      <button type="button" class="button small" onClick={() => setForm('move')}>
        Move…
      </button>
      <button type="button" class="button small danger" onClick={() => choose({ trash: true })}>
        Trash
      </button>
      {form === 'labels' && <LabelsForm labels={props.labels} submit={choose} close={close} />}
      {form === 'move' && <MoveForm account={props.account} submit={choose} close={close} />}
      {change && (
        <BatchDialog
          account={props.account}
          chosen={props.chosen}
          counted={props.counted}
          change={change}
          close={(isDone) => {
            setChange(undefined);
            if (isDone) props.done();
          }}
        />
      )}
    </div>
  );
}
