import { keepPreviousData } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { Link, useLocation, useSearch } from 'wouter-preact';
import { useHistoryState } from 'wouter-preact/use-browser-location';
import type { Schemas } from '../api/client.ts';
import { Icon } from '../ui/icons.tsx';
import { Loading, Problem } from '../ui/parts.tsx';

/** Refresh of lists of mail. */
export const REFRESH_MS = 4_000;
/** Rows that are loaded at a time. */
export const ROWS = 30;

/** Options of a query for a list that pages by cursor. */
export const PAGED = {
  initialPageParam: '',
  getNextPageParam: (page: { cursor: string | null }) => page.cursor ?? undefined,
  placeholderData: keepPreviousData,
  refetchInterval: REFRESH_MS,
};

interface PagedList<T> {
  data?: { pages: { data: T[] }[] } | undefined;
  isPending: boolean;
  error: unknown;
  refetch: () => Promise<unknown>;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** A list that loads further rows on demand, in its state: loading, failed, empty, or its rows, which stay when a refresh fails. */
export function PagedList<T>({
  list,
  empty,
  children,
}: {
  list: PagedList<T>;
  empty: ComponentChildren;
  children: (rows: T[]) => ComponentChildren;
}) {
  const rows = list.data?.pages.flatMap(({ data }) => data) ?? [];
  if (list.isPending) return <Loading lines={6} />;
  const problem = list.error && (
    <div class="card-body">
      <Problem error={list.error} retry={() => void list.refetch()} />
    </div>
  );
  if (rows.length === 0) return <>{problem || empty}</>;
  return (
    <>
      {problem}
      {children(rows)}
      {list.hasNextPage && (
        <div class="pager">
          <span />
          <button
            type="button"
            class="button small"
            disabled={list.isFetchingNextPage}
            onClick={() => void list.fetchNextPage()}
          >
            More
          </button>
        </div>
      )}
    </>
  );
}

/** A link to an email or a conversation; its page links back to this list with its filters. */
export function MailLink({ href, unread, children }: { href: string; unread: boolean; children: ComponentChildren }) {
  const [path] = useLocation();
  const search = useSearch();
  return (
    <Link href={href} class={unread ? 'unread' : ''} state={{ list: search ? `${path}?${search}` : path }}>
      {children}
    </Link>
  );
}

/** The list that the page was opened from; null: it was opened by its address. */
export function useListBefore(): string | null {
  const state = useHistoryState<{ list?: unknown } | null>();
  return typeof state?.list === 'string' ? state.list : null;
}

type Person = Schemas['Attendee'];

export const personName = ({ display_name: name, identifier }: Person) => name || identifier || 'Unknown sender';

/** Names of people, and how many others there are: `Ada, Ben and 3 others`. */
export function peopleNames(people: readonly Person[]): string {
  const names = people.map(personName);
  if (names.length <= 3) return names.join(', ');
  return `${names.slice(0, 2).join(', ')} and ${names.length - 2} others`;
}

/** Says that there are files. */
export function Clip() {
  return (
    <span class="mark">
      <Icon name="clip" />
      <span class="visually-hidden">with files</span>
    </span>
  );
}

/** Says that it is starred. */
export function Starred() {
  return (
    <span class="mark star">
      <Icon name="star" />
      <span class="visually-hidden">starred</span>
    </span>
  );
}
