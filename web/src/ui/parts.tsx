import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { wordsOf } from '../api/client.ts';
import { exactDate, fromNow, momentOf, timesShown } from './format.ts';
import { CopyButton } from './copy.tsx';

type Tone = 'good' | 'warn' | 'bad' | 'idle';

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const TONES: Record<string, Tone> = {
  running: 'good',
  delivered: 'good',
  completed: 'good',
  enabled: 'good',
  closed: 'good',
  sent: 'good',
  errored: 'warn',
  half_open: 'warn',
  queued: 'warn',
  pending: 'warn',
  open: 'bad',
  failed: 'bad',
  disconnected: 'bad',
  disabled: 'bad',
};

/** A state, as text and as color. */
export function State({ of, label }: { of: string; label?: string }) {
  return <Badge tone={TONES[of] ?? 'idle'}>{label ?? of.replaceAll('_', ' ')}</Badge>;
}

/** A time relative to now; the tooltip has the exact time. */
export function Time({ at, none = '–' }: { at: string | null | undefined; none?: string }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 20_000);
    return () => clearInterval(timer);
  }, []);
  if (at === null || at === undefined) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={at} title={exactDate(at)} class="nowrap">
      {timesShown() === 'relative' ? fromNow(at, Math.max(now, Date.now())) : momentOf(at)}
    </time>
  );
}

interface PageProps {
  title: string;
  intro?: ComponentChildren;
  /** the parent page */
  up?: { href: string; label: string };
  actions?: ComponentChildren;
  children: ComponentChildren;
}

/** A page with a heading, which is also the document's title. */
export function Page({ title, intro, up, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} – Email API`;
  }, [title]);
  return (
    <div class="page">
      <header class="page-head">
        <div>
          {up && (
            <p class="crumb">
              <Link href={up.href}>← {up.label}</Link>
            </p>
          )}
          <h1 dir="auto" tabIndex={-1}>
            {title}
          </h1>
          {intro && <p dir="auto">{intro}</p>}
        </div>
        {actions && <div class="row">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Notice({ tone, title, children }: { tone: Tone; title: string; children?: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}

/** An error, in the server's words. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const { title, detail } = wordsOf(error);
  return (
    <Notice tone="bad" title={title}>
      {detail}
      {retry && (
        <>
          {' '}
          <button type="button" class="button plain" onClick={retry}>
            Try again
          </button>
        </>
      )}
    </Notice>
  );
}

/** An empty list, with a suggestion. */
export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="stack-s card-body" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <div class="skeleton" key={index} />
      ))}
    </div>
  );
}

interface List<T> {
  data?: { data: T[]; has_more?: boolean } | undefined;
  isPending: boolean;
  error: unknown;
  refetch: () => Promise<unknown>;
}

/** A list in its state: loading, failed, empty, or its rows. */
export function Listed<T>({
  list,
  empty,
  lines,
  children,
}: {
  list: List<T>;
  empty: ComponentChildren;
  /** shown while loading */
  lines?: number;
  children: (rows: T[]) => ComponentChildren;
}) {
  const rows = list.data?.data ?? [];
  return (
    <>
      {list.error && (
        <div class="card-body">
          <Problem error={list.error} retry={() => void list.refetch()} />
        </div>
      )}
      {list.isPending && <Loading {...(lines === undefined ? {} : { lines })} />}
      {list.data && rows.length === 0 && empty}
      {rows.length > 0 && children(rows)}
    </>
  );
}

/** Pager of a list with an offset, which `useOffset` provides. */
export function Pager<T>({
  list: { data },
  offset: [offset, go],
  size,
}: {
  list: Pick<List<T>, 'data'>;
  offset: readonly [number, (offset: number) => void];
  size: number;
}) {
  const shown = data?.data.length ?? 0;
  const hasMore = data?.has_more ?? false;
  if (offset === 0 && !hasMore) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <span>{shown === 0 ? 'No more' : `${offset + 1}–${offset + shown}`}</span>
      <span class="row">
        <button
          type="button"
          class="button small"
          disabled={offset === 0}
          onClick={() => go(Math.max(0, offset - size))}
        >
          Previous
        </button>
        <button type="button" class="button small" disabled={!hasMore} onClick={() => go(offset + size)}>
          Next
        </button>
      </span>
    </nav>
  );
}

/** A value with a copy button. */
export function Copyable({ value, label }: { value: string; label: string }) {
  return (
    <div class="secret">
      <code>{value}</code>
      <CopyButton value={value} label={label} />
    </div>
  );
}
