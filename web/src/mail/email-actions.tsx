import { useRef, useState } from 'preact/hooks';
import { useMay } from '../access/may.tsx';
import type { Email } from '../api/client.ts';
import { Icon } from '../ui/icons.tsx';
import { Problem } from '../ui/parts.tsx';
import { toast } from '../ui/toast.tsx';
import { type Answer, Compose } from './answer/compose.tsx';
import { LabelsForm, MoveForm } from './change-forms.tsx';
import { type Change, labelsOf, useChange } from './changes.ts';

/** What can be done with one email; `left`: it was moved to Trash. */
export function EmailActions({ email, left = () => {} }: { email: Email; left?: () => void }) {
  const [dialog, setDialog] = useState<'labels' | 'move' | Answer>();
  const opened = useRef(dialog);
  opened.current = dialog;
  const change = useChange(email);
  const close = () => {
    change.reset();
    setDialog(undefined);
  };
  // by then another form may be open, with text in it
  const closeIts = (form: typeof dialog) => () => setDialog((open) => (open === form ? undefined : open));
  const make = (body: Change, said: string, then: () => void = () => {}) =>
    change.mutate(body, {
      onSuccess: () => {
        toast(said);
        then();
      },
    });
  const busy = change.isPending;
  const form = { busy, error: change.error, close };
  return (
    <div class="stack-s">
      <div class="row">
        <button type="button" class="button small" aria-keyshortcuts="r" onClick={() => setDialog('reply')}>
          Reply
        </button>
        <button type="button" class="button small" onClick={() => setDialog('reply-all')}>
          Reply to all
        </button>
        <button type="button" class="button small" onClick={() => setDialog('forward')}>
          Forward
        </button>
        <button
          type="button"
          class="button small"
          disabled={busy}
          onClick={() => make({ is_unread: !email.is_unread }, email.is_unread ? 'Marked as read' : 'Marked as unread')}
        >
          {email.is_unread ? 'Mark as read' : 'Mark as unread'}
        </button>
        <button
          type="button"
          class="button small"
          aria-pressed={email.is_starred === true}
          disabled={busy}
          onClick={() => make({ is_starred: !email.is_starred }, email.is_starred ? 'Star removed' : 'Starred')}
        >
          Star
        </button>
        <button type="button" class="button small" onClick={() => setDialog('labels')}>
          Labels…
        </button>
        <button type="button" class="button small" onClick={() => setDialog('move')}>
          Move…
        </button>
        <button
          type="button"
          class="button small danger"
          disabled={busy}
          onClick={() => make({ trash: true }, 'Moved to Trash', () => opened.current === undefined && left())}
        >
          Trash
        </button>
        <Labels of={email} />
      </div>
      {dialog === undefined && <Problem error={change.error} />}
      {dialog === 'labels' && (
        <LabelsForm
          labels={labelsOf(email)}
          submit={(body) => make(body, 'Labels changed', closeIts('labels'))}
          {...form}
        />
      )}
      {dialog === 'move' && (
        <MoveForm account={email.account_id} submit={(body) => make(body, 'Moved', closeIts('move'))} {...form} />
      )}
      {(dialog === 'reply' || dialog === 'reply-all' || dialog === 'forward') && (
        <Compose email={email} answer={dialog} close={close} />
      )}
    </div>
  );
}

/** The labels of an email. */
export function Labels({ of }: { of: Pick<Email, 'keywords'> }) {
  return (
    <>
      {labelsOf(of).map((label) => (
        <span key={label} class="label-chip">
          {label}
        </span>
      ))}
    </>
  );
}

/** Stars an email in a list, or removes its star. */
export function StarButton({ email }: { email: Email }) {
  const change = useChange(email);
  const isStarred = change.isPending ? change.variables.is_starred === true : email.is_starred === true;
  return (
    <button
      type="button"
      class="star-button"
      aria-label={`Star ${email.subject || '(no subject)'}`}
      aria-pressed={isStarred}
      disabled={!useMay().change}
      onClick={() =>
        change.mutate(
          { is_starred: !isStarred },
          { onError: (error) => toast(error instanceof Error ? error.message : 'It could not be starred') },
        )
      }
    >
      <Icon name="star" />
    </button>
  );
}
