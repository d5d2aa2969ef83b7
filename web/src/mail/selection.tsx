import { useQueries, useQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Allowed } from '../access/may.tsx';
import { api, type Email, take } from '../api/client.ts';
import { count } from '../ui/format.ts';
import { Problem } from '../ui/parts.tsx';
import { given } from '../ui/query.ts';
import { emailsText, type Part, useBatch } from './batch.tsx';
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

/** The ticks of a list, what changes them, and the dialog of a change. */
export interface Selection {
  ticks: Ticks;
  setTicks: (ticks: Ticks) => void;
  toggle: (id: string) => void;
  begin: (parts: readonly Part[], change: Change) => void;
}

/** What is ticked in a list; ticks end when its filters change. The dialog belongs beside the list: it outlives the rows. */
export function useSelection(filter: object) {
  const [ticks, setTicks] = useState(NO_TICKS);
  const filterText = JSON.stringify(filter);
  useEffect(() => setTicks(NO_TICKS), [filterText]);
  const toggle = (id: string) => {
    const ids = new Set(ticks.ids);
    if (!ids.delete(id)) ids.add(id);
    setTicks({ ids, isAll: false });
  };
  const { begin, dialog } = useBatch(() => setTicks(NO_TICKS));
  return { selection: { ticks, setTicks, toggle, begin } satisfies Selection, dialog };
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
  selection: Selection;
  /** how many are chosen */
  status: string;
  /** another choice than the rows that are shown */
  choice?: ComponentChildren;
  parts: readonly Part[];
  labels: readonly string[];
  error: unknown;
}

/** The row above a list: what is ticked, and what can be done with it. */
function SelectionBar({ rows, selection: { ticks, setTicks, begin }, status, choice, parts, labels, error }: Bar) {
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
        {parts.length > 0 && <ChangeButtons parts={parts} labels={labels} begin={begin} />}
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
  selection: Selection;
  /** names the list with its filters */
  list: readonly unknown[];
  read: ReadEmails;
}

/** The row above a list of emails. */
export function EmailSelection({ emails, hasMore, selection, list, read }: OfEmails) {
  const { ticks, setTicks } = selection;
  const matching = useMatching(list, read, ticks.isAll);
  const ticked = emails.filter(({ id }) => ticks.ids.has(id));
  const chosen = ticks.isAll ? (matching.data?.emails ?? []) : ticked;
  return (
    <SelectionBar
      rows={emails}
      selection={selection}
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
      labels={labelsIn(ticked)}
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
    queryFn: ({ signal }) =>
      readAll((cursor) => read({ fields: 'account_id', limit: PAGE, cursor }, signal), MOST_EMAILS),
    enabled,
    staleTime: 0,
    gcTime: 0,
  });
}

/** The emails of all pages of a list, or of as many as have `most` emails. */
async function readAll(
  read: (cursor: string) => ReturnType<ReadEmails>,
  most = Number.POSITIVE_INFINITY,
): Promise<Matching> {
  let emails: Email[] = [];
  let cursor = '';
  do {
    const page = await read(cursor);
    emails = emails.concat(page.data);
    cursor = page.cursor ?? '';
  } while (cursor !== '' && emails.length < most);
  return { emails, hasMore: cursor !== '' };
}

interface OfThreads {
  account: string;
  folder: string;
  threads: readonly { id: string }[];
  selection: Selection;
}

/** The row above a list of conversations; a change is of their emails in the folder that is open. */
export function ThreadSelection({ account, folder, threads, selection }: OfThreads) {
  const ids = threads.map(({ id }) => id).filter((id) => selection.ticks.ids.has(id));
  const found = useQueries({
    queries: ids.map((thread) => ({
      queryKey: ['emails of a thread', account, folder, thread],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        readAll((cursor) =>
          readEmails(
            account,
            folder,
            { thread_id: thread, fields: 'account_id,keywords', limit: PAGE, cursor },
            signal,
          ),
        ),
      refetchOnWindowFocus: false,
      gcTime: 0,
    })),
  });
  const emails = found.flatMap(({ data }) => data?.emails ?? []);
  const isCounted = found.every(({ data }) => data !== undefined);
  return (
    <SelectionBar
      rows={threads}
      selection={selection}
      status={
        ids.length === 0 ? '' : `${chosenText(ids.length)}: ${isCounted ? emailsText(emails.length) : 'counting …'}`
      }
      parts={isCounted ? partsOf(emails) : []}
      labels={labelsIn(emails)}
      error={found.find(({ error }) => error)?.error}
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

interface Buttons {
  parts: readonly Part[];
  labels: readonly string[];
  begin: (parts: readonly Part[], change: Change) => void;
}

/** Buttons that change many emails; those of several mailboxes have no folder in common. */
export function ChangeButtons({ parts, labels, begin }: Buttons) {
  const [form, setForm] = useState<'labels' | 'move'>();
  const choose = (change: Change) => {
    setForm(undefined);
    begin(parts, change);
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
    </div>
  );
}
