import { useQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Allowed } from '../access/may.tsx';
import { api, type Email, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Problem } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';
import { BatchDialog, emailsText, type Part } from './batch.tsx';
import { LabelsForm, MoveForm } from './change-forms.tsx';
import { type Change, labelsOf, MOST_EMAILS } from './changes.ts';
import type { MailFilter } from './filters.tsx';

/** Ids that are counted per call. */
const PAGE = 250;

/** What is ticked in a list: some of its rows, or all that match its filters. */
export interface Ticks {
  ids: ReadonlySet<string>;
  isAll: boolean;
}

const NO_TICKS: Ticks = { ids: new Set(), isAll: false };

type SetTicks = (ticks: Ticks) => void;

/** The ticks of a list, and what ticks a row or takes its tick away. They end when the filters of the list change. */
export function useTicks(filter: object) {
  const [ticks, setTicks] = useState(NO_TICKS);
  const filterText = JSON.stringify(filter);
  useEffect(() => setTicks(NO_TICKS), [filterText]);
  const toggle = (id: string) => {
    const ids = new Set(ticks.ids);
    if (!ids.delete(id)) ids.add(id);
    setTicks({ ids, isAll: false });
  };
  return { ticks, setTicks, toggle };
}

/** Ticks a row of a list. */
export function Tick({ subject, checked, toggle }: { subject: string; checked: boolean; toggle: () => void }) {
  return (
    <Allowed to="change">
      <input type="checkbox" checked={checked} onChange={toggle} aria-label={`Choose ${subject || '(no subject)'}`} />
    </Allowed>
  );
}

interface Bar {
  rows: readonly { id: string }[];
  ticks: Ticks;
  setTicks: SetTicks;
  /** how many are chosen */
  status: string;
  /** another choice than the rows that are shown */
  choice?: ComponentChildren;
  parts: readonly Part[];
  labels: readonly string[];
  error: unknown;
}

/** The row above a list: what is ticked, and what can be done with it. */
function SelectionBar({ rows, ticks, setTicks, status, choice, parts, labels, error }: Bar) {
  const isEachTicked = isEach(rows, ticks);
  return (
    <Allowed to="change">
      <div class="selection">
        <label class="check">
          <input
            type="checkbox"
            checked={isEachTicked}
            onChange={() =>
              setTicks(isEachTicked ? NO_TICKS : { ids: new Set(rows.map(({ id }) => id)), isAll: false })
            }
          />
          Choose all shown
        </label>
        <span class="small" role="status">
          {status}
        </span>
        {choice}
        <Problem error={error} />
        {parts.length > 0 && <ChangeButtons parts={parts} labels={labels} done={() => setTicks(NO_TICKS)} />}
      </div>
    </Allowed>
  );
}

const isEach = (rows: readonly { id: string }[], { ids }: Ticks) =>
  rows.length > 0 && rows.every(({ id }) => ids.has(id));

/** A page of a list of emails; `fields` and `limit` replace those of the list. */
export type ReadEmails = (
  query: { fields: string; limit: number; cursor: string },
  signal?: AbortSignal,
) => Promise<{ data: Email[]; cursor: string | null }>;

interface OfEmails {
  emails: readonly Email[];
  hasMore: boolean;
  ticks: Ticks;
  setTicks: SetTicks;
  /** names the list with its filters */
  list: readonly unknown[];
  read: ReadEmails;
}

/** The row above a list of emails. */
export function EmailSelection({ emails, hasMore, ticks, setTicks, list, read }: OfEmails) {
  const matching = useMatching(list, read, ticks.isAll);
  const chosen = ticks.isAll ? (matching.data?.emails ?? []) : emails.filter(({ id }) => ticks.ids.has(id));
  return (
    <SelectionBar
      rows={emails}
      ticks={ticks}
      setTicks={setTicks}
      status={ticks.isAll ? matchingText(matching.data) : chosenText(chosen.length)}
      choice={
        isEach(emails, ticks) &&
        hasMore &&
        !ticks.isAll && (
          <button type="button" class="button plain small" onClick={() => setTicks({ ...ticks, isAll: true })}>
            Choose all that match the filters
          </button>
        )
      }
      parts={partsOf(chosen)}
      labels={labelsIn(emails.filter(({ id }) => ticks.ids.has(id)))}
      error={ticks.isAll && matching.error}
    />
  );
}

const chosenText = (rows: number) => (rows > 0 ? `${count(rows)} chosen` : '');

export const labelsIn = (emails: readonly Email[]) => [...new Set(emails.flatMap(labelsOf))].sort();

/** Emails by their mailboxes. */
function partsOf(emails: readonly Pick<Email, 'id' | 'account_id'>[]): Part[] {
  const ids = new Map<string, string[]>();
  for (const { id, account_id: account } of emails) {
    const of = ids.get(account);
    if (of) of.push(id);
    else ids.set(account, [id]);
  }
  return [...ids].map(([account, of]) => ({ account, chosen: { ids: of }, counted: of.length }));
}

function matchingText(matching: Matching | undefined): string {
  if (!matching) return 'Counting …';
  const { emails, hasMore } = matching;
  return hasMore ? `The newest ${emailsText(emails.length)} that match` : `All ${emailsText(emails.length)} that match`;
}

interface Matching {
  emails: Email[];
  /** there are others, beyond what one change can choose */
  hasMore: boolean;
}

/** All emails of a list, without their content: what is counted before a change is what it changes. */
function useMatching(list: readonly unknown[], read: ReadEmails, enabled: boolean) {
  return useQuery({
    queryKey: ['matching', ...list],
    queryFn: async ({ signal }): Promise<Matching> => {
      let emails: Email[] = [];
      let cursor = '';
      do {
        const page = await read({ fields: 'account_id', limit: PAGE, cursor }, signal);
        emails = emails.concat(page.data);
        cursor = page.cursor ?? '';
      } while (cursor !== '' && emails.length < MOST_EMAILS);
      return { emails, hasMore: cursor !== '' };
    },
    enabled,
    staleTime: 0,
    gcTime: 0,
  });
}

interface OfThreads {
  account: string;
  folder: string;
  threads: readonly { id: string }[];
  ticks: Ticks;
  setTicks: SetTicks;
}

/** The row above a list of conversations; a change is of their emails in the folder that is open. */
export function ThreadSelection({ account, folder, threads, ticks, setTicks }: OfThreads) {
  const ids = [...ticks.ids].sort();
  const inside = useQuery({
    queryKey: ['emails', account, folder, 'of conversations', ids],
    queryFn: async ({ signal }) => {
      let emails: Email[] = [];
      for (const thread of ids) {
        for (let cursor: string | null = ''; cursor !== null; ) {
          const query = { thread_id: thread, fields: 'account_id,keywords', limit: PAGE, cursor };
          const page: Awaited<ReturnType<ReadEmails>> = await readEmails(account, folder, query, signal);
          emails = emails.concat(page.data);
          cursor = page.cursor;
        }
      }
      return emails;
    },
    enabled: ids.length > 0,
  });
  const emails = ids.length > 0 ? inside.data : undefined;
  return (
    <SelectionBar
      rows={threads}
      ticks={ticks}
      setTicks={setTicks}
      status={emails ? `${chosenText(ids.length)}: ${emailsText(emails.length)}` : chosenText(ids.length)}
      parts={partsOf(emails ?? [])}
      labels={labelsIn(emails ?? [])}
      error={inside.error}
    />
  );
}

/** A page of the emails of a mailbox, or of one of its folders. */
export function readEmails(
  account: string,
  folder: string,
  filter: MailFilter & { thread_id?: string; fields: string; limit: number; cursor: string },
  signal?: AbortSignal,
) {
  const query = given({ ...filter });
  const options = signal ? { signal } : {};
  return take(
    folder === ''
      ? api.GET('/api/v1/{account_id}/emails', { params: { path: { account_id: account }, query }, ...options })
      : api.GET('/api/v1/{account_id}/folders/{folder_id}/emails', {
          params: { path: { account_id: account, folder_id: folder }, query },
          ...options,
        }),
  );
}

const SIMPLE: [string, Change][] = [
  ['Read', { is_unread: false }],
  ['Unread', { is_unread: true }],
  ['Star', { is_starred: true }],
  ['Remove star', { is_starred: false }],
];

/** Buttons that change many emails; those of several mailboxes have no folder in common. */
export function ChangeButtons({
  parts,
  labels,
  done,
}: {
  parts: readonly Part[];
  labels: readonly string[];
  done: () => void;
}) {
  const [form, setForm] = useState<'labels' | 'move'>();
  const [change, setChange] = useState<{ parts: readonly Part[]; made: Change }>();
  const choose = (made: Change) => {
    setForm(undefined);
    setChange({ parts, made });
  };
  const close = () => setForm(undefined);
  const [{ account } = { account: '' }, ...others] = parts;
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
      {others.length === 0 && (
        <button type="button" class="button small" onClick={() => setForm('move')}>
          Move…
        </button>
      )}
      <button type="button" class="button small danger" onClick={() => choose({ trash: true })}>
        Trash
      </button>
      {form === 'labels' && <LabelsForm labels={labels} submit={choose} close={close} />}
      {form === 'move' && <MoveForm account={account} submit={choose} close={close} />}
      {change && (
        <BatchDialog
          parts={change.parts}
          change={change.made}
          close={(isDone) => {
            setChange(undefined);
            if (isDone) done();
          }}
        />
      )}
    </div>
  );
}
