import { useMutation, useQuery } from '@tanstack/preact-query';
import { useEffect, useId, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { api, type EmailBatch, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { Dialog } from '../ui/dialog.tsx';
import { count } from '../ui/format.ts';
import { useLeft } from '../ui/left.ts';
import { Loading, Page, Problem, State } from '../ui/parts.tsx';
import { type Change, type Chosen, useMailChanged } from './changes.ts';
import { useListBefore } from './list.tsx';
import { MailboxName } from './mailbox-name.tsx';
import { useAccount } from './use-account.ts';

/** Failures that are listed. */
const FAILURES = 20;

export const emailsText = (number: number) => `${count(number)} ${number === 1 ? 'email' : 'emails'}`;

/** What a change does, after "1,234 emails: ". */
function changeText({ trash, is_unread, is_starred, keywords, folders_ids }: Change): string {
  if (trash) return 'move to Trash';
  if (folders_ids) return 'move to another folder';
  if (is_unread !== undefined) return is_unread ? 'mark as unread' : 'mark as read';
  if (is_starred !== undefined) return is_starred ? 'star' : 'remove the star';
  const add = keywords?.add?.length ? `add ${keywords.add.join(', ')}` : '';
  const remove = keywords?.remove?.length ? `remove ${keywords.remove.join(', ')}` : '';
  return [add, remove].filter((part) => part !== '').join(' and ');
}

/** Emails of one mailbox that are to be changed. */
export interface Part {
  account: string;
  chosen: Chosen;
  /** how many emails were counted */
  counted: number;
}

interface Batches {
  parts: readonly Part[];
  change: Change;
  close: (isDone: boolean) => void;
}

/** A dialog that makes one change of many emails, and what opens it. It outlives the rows that it changes. */
export function useBatch(done: () => void = () => {}) {
  const [asked, setAsked] = useState<Omit<Batches, 'close'>>();
  const close = (isDone: boolean) => {
    setAsked(undefined);
    if (isDone) done();
  };
  return {
    begin: (parts: readonly Part[], change: Change) => setAsked({ parts, change }),
    dialog: asked && <BatchDialog {...asked} close={close} />,
  };
}

/** Says how many emails a change is of, starts it when confirmed, in each mailbox, and shows how far it is. */
function BatchDialog({ parts, change, close }: Batches) {
  const [started, setStarted] = useState<ReadonlyMap<string, EmailBatch>>(new Map());
  const [refused, setRefused] = useState<ReadonlyMap<string, unknown>>(new Map());
  const isClosed = useLeft();
  const left = parts.filter(({ account }) => !started.has(account));
  const once = useOnce();
  const start = useMutation({
    mutationFn: async () => {
      setRefused(new Map());
      for (const { account, chosen } of left) {
        if (isClosed.current) return;
        const params = { path: { account_id: account } };
        const body = { ...chosen, change };
        await once({ account, body }, (headers) =>
          api.POST('/api/v1/{account_id}/emails/batch', { params, headers, body }),
        ).then(
          (batch) => setStarted((before) => new Map(before).set(account, batch)),
          (error: unknown) => setRefused((before) => new Map(before).set(account, error)),
        );
      }
    },
  });
  const changed = useMailChanged();
  const end = () => {
    isClosed.current = true;
    for (const account of started.keys()) void changed(account);
    close(left.length === 0);
  };
  const counted = (of: readonly Part[]) =>
    of.reduce((sum, { account, counted }) => sum + (started.get(account)?.total ?? counted), 0);
  return (
    <Dialog title={`${emailsText(counted(parts))}: ${changeText(change)}`} close={end}>
      {started.size + refused.size === 0 && (
        <p>
          The change is made in the {parts.length === 1 ? 'mailbox' : `${count(parts.length)} mailboxes`} too: every
          mail program shows it.
        </p>
      )}
      {parts.map(({ account }) => (
        <PartState
          key={account}
          account={account}
          isNamed={parts.length > 1}
          batch={started.get(account)}
          error={refused.get(account)}
        />
      ))}
      <div class="dialog-foot">
        {left.length === 0 ? (
          <button type="button" class="button main-action" onClick={end}>
            Done
          </button>
        ) : (
          <>
            <button type="button" class="button" onClick={end}>
              {started.size > 0 ? 'Leave the rest' : 'Cancel'}
            </button>
            <button type="button" class="button main-action" disabled={start.isPending} onClick={() => start.mutate()}>
              {start.isPending ? 'One moment …' : `Change ${emailsText(counted(left))}`}
            </button>
          </>
        )}
      </div>
    </Dialog>
  );
}

interface OfPart {
  account: string;
  isNamed: boolean;
  batch: EmailBatch | undefined;
  error: unknown;
}

/** How far the change is in one mailbox; nothing before it was tried there. */
function PartState({ account, isNamed, batch, error }: OfPart) {
  if (!batch && !error) return null;
  return (
    <section class="stack-s">
      {isNamed && (
        <h3>
          <MailboxName id={account} />
        </h3>
      )}
      {batch ? <BatchState account={account} id={batch.id} first={batch} /> : <Problem error={error} />}
    </section>
  );
}

/** How far a change of many emails is, and what could not be changed. */
function BatchState({ account, id, first }: { account: string; id: string; first?: EmailBatch }) {
  const params = { path: { account_id: account, batch_id: id } };
  const batch = useQuery({
    queryKey: ['batch', id],
    queryFn: () => take(api.GET('/api/v1/{account_id}/batches/{batch_id}', { params })),
    ...(first ? { initialData: first, initialDataUpdatedAt: 0 } : {}),
    refetchInterval: ({ state }) => (state.data?.status === 'completed' ? false : 500),
  });
  const changed = useMailChanged();
  const isDone = batch.data?.status === 'completed';
  useEffect(() => {
    if (isDone) void changed(account);
  }, [isDone]);
  const text = useId();
  if (!batch.data) return batch.error ? <Problem error={batch.error} /> : <Loading lines={2} />;
  const { total, pending, changed: made, failed } = batch.data;
  return (
    <div class="stack-s">
      <Problem error={batch.error} />
      <p class="row" id={text} role="status">
        <State of={isDone ? 'completed' : 'running'} />
        <span>
          {count(total - pending)} of {emailsText(total)} done
          {failed > 0 && <>, {count(failed)} failed</>}
        </span>
      </p>
      <progress
        class="progress"
        aria-labelledby={text}
        max={Math.max(1, total)}
        value={total === 0 ? 1 : made + failed}
      />
      {failed > 0 && <Failures account={account} id={id} of={failed} />}
    </div>
  );
}

function Failures({ account, id, of }: { account: string; id: string; of: number }) {
  const results = useQuery({
    queryKey: ['batch-failures', id, of],
    queryFn: () =>
      take(
        api.GET('/api/v1/{account_id}/batches/{batch_id}/results', {
          params: { path: { account_id: account, batch_id: id }, query: { status: 'failed', limit: FAILURES } },
        }),
      ),
  });
  return (
    <>
      <Problem error={results.error} />
      <ul class="stack-s small">
        {results.data?.data.map(({ email_id: email, error }) => (
          <li key={email}>
            <Link href={`/mailboxes/${account}/emails/${email}`}>
              <code>{email}</code>
            </Link>{' '}
            {error?.detail}
          </li>
        ))}
        {of > FAILURES && <li class="quiet">and {count(of - FAILURES)} others</li>}
      </ul>
    </>
  );
}

/** One change of many emails. */
export function BatchPage({ account, id }: { account: string; id: string }) {
  const mailbox = useAccount(account);
  const list = useListBefore();
  return (
    <Page
      title="Change of many emails"
      up={{ href: list ?? `/mailboxes/${account}`, label: mailbox.data?.name ?? 'Mailbox' }}
    >
      <section class="card pad" aria-label="Progress">
        <BatchState account={account} id={id} />
      </section>
    </Page>
  );
}
