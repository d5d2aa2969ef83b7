import { useMutation, useQueryClient } from '@tanstack/preact-query';
import { useId } from 'preact/hooks';
import { Allowed } from '../../access/may.tsx';
import { type Account, api, type Import, take } from '../../api/client.ts';
import { count, dayOf } from '../../ui/format.ts';
import { Problem, State, Time } from '../../ui/parts.tsx';
import { pathsOf } from '../folder-tree.tsx';
import { importing, isUnfinished, percent, shareOf, useImports } from './imports.ts';
import { useFolders } from '../use-folders.ts';

/** The initial sync of a mailbox and its imports of older mail; nothing without any. */
export function ImportList({ account }: { account: Account }) {
  const imports = useImports(account.id);
  const runs = imports.data?.data ?? [];
  const unfinished = runs.filter(isUnfinished);
  const [last, ...earlier] = runs.filter((run) => !isUnfinished(run));
  if (!account.initial_sync && runs.length === 0 && !imports.error) return null;
  return (
    <section class="card" aria-labelledby="imports">
      <div class="card-head">
        <h2 id="imports">Import of older mail</h2>
      </div>
      <div class="card-body stack">
        <Problem error={imports.error} />
        {account.initial_sync && <InitialSync sync={account.initial_sync} />}
        {[...unfinished, ...(last ? [last] : [])].map((run) => (
          <Run key={run.id} run={run} />
        ))}
        {earlier.length > 0 && (
          <details>
            <summary>Earlier imports: {count(earlier.length)}</summary>
            <div class="stack">
              {earlier.map((run) => (
                <Run key={run.id} run={run} />
              ))}
            </div>
          </details>
        )}
      </div>
    </section>
  );
}

function InitialSync({ sync }: { sync: NonNullable<Account['initial_sync']> }) {
  const text = {
    pending: 'The import begins in a moment.',
    running: `Importing the mail of the last ${sync.days} days: ${count(sync.imported)} so far`,
    completed: `The mail of the last ${sync.days} days is imported: ${count(sync.imported)} emails.`,
    failed: `The import failed after ${count(sync.imported)} emails. Connect the mailbox again to repeat it.`,
  }[sync.status];
  return (
    <div class="stack-s">
      <p class="small" id="initial-sync">
        {text}
      </p>
      {(sync.status === 'pending' || sync.status === 'running') && (
        <progress class="progress" aria-labelledby="initial-sync" max={1} />
      )}
    </div>
  );
}

function Run({ run }: { run: Import }) {
  const id = useId();
  const { status, progress, imported, reason, next_attempt_at: next, messages_per_second: rate } = run;
  const share = shareOf(run);
  const counted = `${count(progress.folders_done)} of ${count(progress.folders_known)} folders, ${count(
    progress.messages_done,
  )} of ${count(progress.messages_known)} messages read`;
  return (
    <div class="stack-s">
      <div class="row" id={id}>
        <State of={status} />
        <strong>
          <Scope run={run} />
        </strong>
        <span class="small quiet">
          <Time at={run.created_at} />
        </span>
      </div>
      {isUnfinished(run) && (
        <progress class="progress" aria-labelledby={id} max={1} {...(share === undefined ? {} : { value: share })} />
      )}
      <p class="small">
        {share !== undefined && isUnfinished(run) && <strong>{percent(share)} </strong>}
        {counted}
        {rate !== null && rate > 0 && (
          <>
            , {count(rate)} a second, about {durationText(progress.messages_left / rate)} left
          </>
        )}
        . {count(imported)} new emails.
      </p>
      {reason && (
        <p class="small quiet">
          {reason}
          {next && (
            <>
              {' '}
              Next attempt <Time at={next} />.
            </>
          )}
        </p>
      )}
      <Allowed to="change">
        <Buttons run={run} />
      </Allowed>
    </div>
  );
}

/** Which mail it imports. */
function Scope({ run: { account_id: account, folders, since, until } }: { run: Import }) {
  const known = useFolders(account);
  const paths = new Map(pathsOf(known.data?.data ?? []).map(({ value, label }) => [value, label]));
  const named = folders?.map((folder) => paths.get(folder) ?? folder.toLowerCase()).join(', ');
  return (
    <>
      {named ?? 'All folders'}
      {since && `, since ${dayOf(since)}`}
      {until && `, until ${dayOf(until)}`}
    </>
  );
}

const VERBS = {
  pause: ['Pause', '/api/v1/accounts/{id}/imports/{import_id}/pause'],
  continue: ['Continue', '/api/v1/accounts/{id}/imports/{import_id}/continue'],
  cancel: ['Cancel', '/api/v1/accounts/{id}/imports/{import_id}/cancel'],
} as const;
type Verb = keyof typeof VERBS;

const POSSIBLE: Record<Import['status'], Verb[]> = {
  queued: ['pause', 'cancel'],
  running: ['pause', 'cancel'],
  waiting: ['pause', 'cancel'],
  paused: ['continue', 'cancel'],
  failed: ['continue'],
  completed: [],
  cancelled: [],
};

function Buttons({ run }: { run: Import }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (verb: Verb) =>
      take(api.POST(VERBS[verb][1], { params: { path: { id: run.account_id, import_id: run.id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['imports', run.account_id] }),
  });
  if (POSSIBLE[run.status].length === 0) return null;
  return (
    <>
      <div class="row">
        {POSSIBLE[run.status].map((verb) => (
          <button
            key={verb}
            type="button"
            class={verb === 'cancel' ? 'button small danger' : 'button small'}
            disabled={change.isPending}
            onClick={() => change.mutate(verb)}
          >
            {VERBS[verb][0]}
            <span class="visually-hidden"> the import</span>
          </button>
        ))}
      </div>
      <Problem error={change.error} />
    </>
  );
}

function durationText(seconds: number): string {
  if (seconds < 90) return `${count(Math.max(1, Math.round(seconds)))} s`;
  if (seconds < 5400) return `${count(Math.round(seconds / 60))} min`;
  return `${count(Math.round(seconds / 3600))} h`;
}

/** Says in the list of mailboxes that mail of this one is being imported. */
export function ImportBadge({ account, imports }: { account: Account; imports: readonly Import[] }) {
  const running = importing(
    account.initial_sync,
    imports.filter((run) => run.account_id === account.id),
  );
  if (!running) return null;
  const { share } = running;
  return <State of="importing" label={share === undefined ? 'importing' : `importing ${percent(share)}`} />;
}
