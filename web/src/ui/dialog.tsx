import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Copyable, Notice, Problem } from './parts.tsx';

/** A modal dialog: Escape closes it, and it traps the focus. */
export function Dialog({
  title,
  close,
  held = false,
  children,
}: {
  title: string;
  close: () => void;
  /** it cannot be closed now */
  held?: boolean;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isLeft = useRef(false);
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      isLeft.current = true;
      dialog?.close();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={(event) => held && event.preventDefault()}
      onClose={() => {
        // a replaced dialog closes late, and must not close its successor
        if (isLeft.current) return;
        // a second Escape cannot be prevented
        if (held) ref.current?.showModal();
        else close();
      }}
    >
      <div class="card-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="button plain" disabled={held} onClick={close}>
          Close
        </button>
      </div>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** A form in a dialog, with the error of its last submit. */
export function DialogForm(props: {
  title: string;
  children: ComponentChildren;
  action: string;
  /** submit is disabled */
  incomplete?: boolean;
  busy: boolean;
  /** its call returns what is shown once: while busy, it cannot be closed */
  showsOnce?: boolean;
  error: unknown;
  submit: () => void;
  close: () => void;
}) {
  const isHeld = props.busy && props.showsOnce === true;
  return (
    <Dialog title={props.title} close={props.close} held={isHeld}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          props.submit();
        }}
      >
        {props.children}
        <Problem error={props.error} />
        <div class="dialog-foot">
          <button type="button" class="button" disabled={isHeld} onClick={props.close}>
            Cancel
          </button>
          <button class="button main-action" disabled={props.busy || props.incomplete}>
            {props.busy ? 'One moment …' : props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Shows a secret once. */
export function ShowOnce(props: {
  title: string;
  children: ComponentChildren;
  value: string;
  label: string;
  close: () => void;
}) {
  return (
    <Dialog title={props.title} close={props.close}>
      <Notice tone="warn" title="Copy it now">
        {props.children}
      </Notice>
      <Copyable value={props.value} label={props.label} />
      <div class="dialog-foot">
        <button type="button" class="button main-action" onClick={props.close}>
          I have copied it
        </button>
      </div>
    </Dialog>
  );
}

/** Asks for confirmation of an irreversible action. */
export function Confirm(props: {
  title: string;
  children: ComponentChildren;
  action: string;
  busy: boolean;
  /** its call returns what is shown once: while busy, it cannot be closed */
  showsOnce?: boolean;
  error: unknown;
  confirm: () => void;
  close: () => void;
}) {
  const isHeld = props.busy && props.showsOnce === true;
  return (
    <Dialog title={props.title} close={props.close} held={isHeld}>
      <div>{props.children}</div>
      <Problem error={props.error} />
      <div class="dialog-foot">
        <button type="button" class="button" disabled={isHeld} onClick={props.close}>
          Cancel
        </button>
        <button type="button" class="button danger" disabled={props.busy} onClick={props.confirm}>
          {props.busy ? 'One moment …' : props.action}
        </button>
      </div>
    </Dialog>
  );
}
