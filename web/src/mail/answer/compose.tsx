import { useIsMutating, useMutation, useQueryClient } from '@tanstack/preact-query';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { api, ApiFailure, type Email, wordsOf } from '../../api/client.ts';
import { isRefusal, useOnce } from '../../api/once.ts';
import { DialogForm } from '../../ui/dialog.tsx';
import { AreaField, TextField } from '../../ui/field.tsx';
import { bytes } from '../../ui/format.ts';
import { holdPage, useLeft } from '../../ui/left.ts';
import { toast } from '../../ui/toast.tsx';
import { addresses, readRecipients } from './recipients.ts';
import {
  forgetSent,
  isSame,
  isUndecided,
  keepUndecided,
  keepUnsent,
  undecidedSends,
  unsentOf,
  type Written,
  writer,
} from './unsent.ts';
import { useAccount } from '../use-account.ts';

export type Answer = 'reply' | 'reply-all' | 'forward';

const TITLES: Record<Answer, string> = { reply: 'Reply', 'reply-all': 'Reply to all', forward: 'Forward' };

/** Adds `Re:` or `Fwd:` to a subject, once. */
function subjectOf(answer: Answer, subject: string): string {
  const prefix = answer === 'forward' ? 'Fwd:' : 'Re:';
  return subject.toLowerCase().startsWith(prefix.toLowerCase()) ? subject : `${prefix} ${subject}`.trim();
}

/** Whom an answer goes to. `own`: the address of the mailbox. */
function recipientsOf(answer: Answer, email: Email, own: string): { to: string; cc: string } {
  if (answer === 'forward') return { to: '', cc: '' };
  const senders = email.reply_to_attendees.length > 0 ? email.reply_to_attendees : [email.from_attendee];
  // an answer to one's own email goes to whom that went
  const to = email.is_echo ? email.to_attendees : senders;
  const known = new Set([own, ...to.map(({ identifier }) => identifier)].map((one) => one.toLowerCase()));
  const others = [...(email.is_echo ? [] : email.to_attendees), ...email.cc_attendees];
  const cc = answer === 'reply' ? [] : others.filter(({ identifier }) => !known.has(identifier.toLowerCase()));
  return { to: addresses(to), cc: addresses(cc) };
}

/** The content of a file, in base64. */
function base64Of(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(typeof reader.result === 'string' ? reader.result.replace(/^[^,]*,/, '') : '');
    reader.onerror = () => reject(reader.error ?? new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

/** Sends an answer, also after its form is closed, and closes the form, unless more was written since. */
function useSend(email: Email, answer: Answer, close: () => void) {
  const name = `${email.id} ${answer}`;
  const queries = useQueryClient();
  const mutationKey = ['send', name];
  const shownAgain = `“${TITLES[answer]}” shows what you wrote again.`;
  const isLeft = useLeft();
  const once = useOnce(undecidedSends);
  const send = useMutation({
    mutationKey,
    mutationFn: async ({ to, cc, subject, text, files }: Written & { by: string }) => {
      const release = holdPage();
      try {
        const attachments = await Promise.all(
          files.map(async (file) => ({
            content: await base64Of(file),
            filename: file.name,
            ...(file.type ? { content_type: file.type } : {}),
          })),
        );
        const params = { path: { account_id: email.account_id } };
        const body = {
          ...{ to: readRecipients(to), cc: readRecipients(cc), subject, plain_text: text, attachments },
          ...(answer === 'forward' ? { forward_message_id: email.id } : { reply_to_message_id: email.id }),
        };
        return await once(body, (headers) => api.POST('/api/v1/{account_id}/emails/send', { params, headers, body }));
      } finally {
        release();
      }
    },
    // these run, unlike those of a call of mutate, after the form is gone
    onSuccess: ({ rejected = [] }, sent) => {
      forgetSent(name, sent);
      if (sent.by === writer()) toast(rejected.length === 0 ? 'Sent' : `Sent, but not to ${rejected.join(', ')}`);
    },
    onError: (error, { by }) => {
      if (isRefusal(error) && by === writer()) keepUndecided(name, false);
      // the form says it, and another person must not read it
      if (isLeft.current && by === writer()) toast(`${notSent(error)} ${shownAgain}`);
    },
  });
  // a send of a form that was closed counts too
  const busy = useIsMutating({ mutationKey }) > 0;
  const wasBusy = useRef(false);
  useEffect(() => {
    if (wasBusy.current && !busy && unsentOf(name) === undefined) close();
    wasBusy.current = busy;
  }, [busy]);
  return {
    name,
    shownAgain,
    busy,
    error: send.error,
    /** now, also after the form is gone */
    isSending: () => queries.isMutating({ mutationKey }) > 0,
    send: (written: Written) => {
      keepUnsent(name, written);
      keepUndecided(name, true);
      send.mutate({ ...written, by: writer() });
    },
  };
}

/** What was written before, or `first`; changes of it are kept. */
function useWritten({ name, shownAgain, isSending }: ReturnType<typeof useSend>, first: Written) {
  const [written, setWritten] = useState(() => unsentOf(name) ?? first);
  const [isOld, setOld] = useState(() => unsentOf(name) !== undefined);
  const isChanged = !isSame(written, first);
  useEffect(() => (isChanged ? holdPage() : undefined), [isChanged]);
  useEffect(
    () => () => {
      if (unsentOf(name) && !isSending()) toast(`Not sent. ${shownAgain}`);
    },
    [name],
  );
  const keep = (next: Written) => {
    setWritten(next);
    keepUnsent(name, isSame(next, first) ? undefined : next);
  };
  return {
    written,
    write: (part: Partial<Written>) => keep({ ...written, ...part }),
    /** it was written in a form that is closed */
    isOld,
    startAgain: () => {
      keep(first);
      setOld(false);
    },
  };
}

/** Why an answer whose form is closed was not sent. */
function notSent(error: unknown): string {
  const { detail } = wordsOf(error);
  // without a response, it may have been sent
  const what = error instanceof ApiFailure && error.status === 0 ? 'Perhaps not sent' : 'Not sent';
  return `${what}: ${detail}`;
}

/** Writes a reply to an email, or forwards it. */
export function Compose({ email, answer, close }: { email: Email; answer: Answer; close: () => void }) {
  const mailbox = useAccount(email.account_id);
  const [first] = useState<Written>(() => ({
    ...recipientsOf(answer, email, mailbox.data?.user_id ?? ''),
    ...{ subject: subjectOf(answer, email.subject), text: '', files: [] },
  }));
  const sending = useSend(email, answer, close);
  const { written, write, isOld, startAgain } = useWritten(sending, first);
  const { busy, error, send } = sending;
  const { to, cc, subject, text, files, dropped = [] } = written;
  return (
    <DialogForm
      title={TITLES[answer]}
      action="Send"
      busy={busy}
      error={error}
      submit={() => send(written)}
      close={close}
    >
      {isOld && !busy && (
        <p class="small quiet">
          {isUndecided(sending.name)
            ? 'You wrote this before, and it may have been sent: look in Sent before you send it again.'
            : 'You wrote this before and have not sent it.'}{' '}
          <button type="button" class="button plain" onClick={startAgain}>
            Start again
          </button>
        </p>
      )}
      <TextField label="To" required help="Commas separate several." value={to} set={(to) => write({ to })} />
      <TextField label="Cc" value={cc} set={(cc) => write({ cc })} />
      <TextField label="Subject" value={subject} set={(subject) => write({ subject })} />
      <AreaField
        label="Text"
        rows={8}
        {...(answer === 'forward' ? { help: 'The original follows, with its files.' } : {})}
        value={text}
        set={(text) => write({ text })}
      />
      <Files files={files} dropped={dropped} set={(files) => write({ files })} />
    </DialogForm>
  );
}

interface FilesProps {
  files: readonly File[];
  dropped: readonly string[];
  set: (files: File[]) => void;
}

function Files({ files, dropped, set }: FilesProps) {
  const id = useId();
  const ref = useRef<HTMLInputElement>(null);
  // those that were chosen in a form that is closed
  useEffect(() => {
    const chosen = new DataTransfer();
    for (const file of files) chosen.items.add(file);
    if (ref.current) ref.current.files = chosen.files;
  }, [files]);
  return (
    <div class="field">
      <label for={id}>Files</label>
      <input ref={ref} id={id} type="file" multiple onChange={(event) => set([...(event.currentTarget.files ?? [])])} />
      {files.length === 0 && dropped.length > 0 && (
        <span class="help">The page was reloaded: choose the files again ({dropped.join(', ')}).</span>
      )}
      {files.length > 0 && <span class="help">{bytes(files.reduce((sum, { size }) => sum + size, 0))} in total</span>}
    </div>
  );
}
