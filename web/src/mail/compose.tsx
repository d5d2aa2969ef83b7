import { useMutation } from '@tanstack/preact-query';
import { useId, useState } from 'preact/hooks';
import { api, type Email, type Schemas } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { bytes } from '../ui/format.ts';
import { useLeft } from '../ui/left.ts';
import { toast } from '../ui/toast.tsx';
import { addresses } from './list.tsx';
import { useAccount } from './use-account.ts';

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

/** Reads `Lovelace, Ada <ada@example.com>, ben@example.com`: a comma after an address ends it. */
function readRecipients(text: string): Schemas['Recipient'][] {
  return text
    .split(/(?<=@[^,;]*)[,;]/)
    .map((one) => one.trim())
    .filter((one) => one !== '')
    .map((one) => {
      const [, name = '', email = one] = /^(.*?)\s*<([^<>]+)>$/.exec(one) ?? [];
      return { email: email.trim(), ...(name === '' ? {} : { display_name: name }) };
    });
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

/** Writes a reply to an email, or forwards it. */
export function Compose({ email, answer, close }: { email: Email; answer: Answer; close: () => void }) {
  const mailbox = useAccount(email.account_id);
  const first = recipientsOf(answer, email, mailbox.data?.user_id ?? '');
  const [to, setTo] = useState(first.to);
  const [cc, setCc] = useState(first.cc);
  const [subject, setSubject] = useState(subjectOf(answer, email.subject));
  const [text, setText] = useState('');
  const [files, setFiles] = useState<File[]>([]);
  const id = useId();
  const isLeft = useLeft();
  const once = useOnce();
  const send = useMutation({
    mutationFn: async () => {
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
      return once(body, (headers) => api.POST('/api/v1/{account_id}/emails/send', { params, headers, body }));
    },
    onSuccess: ({ rejected = [] }) => {
      toast(rejected.length === 0 ? 'Sent' : `Sent, but not to ${rejected.join(', ')}`);
      // once left, the form that is open now is another
      if (!isLeft.current) close();
    },
  });
  return (
    <DialogForm
      title={TITLES[answer]}
      action="Send"
      busy={send.isPending}
      error={send.error}
      submit={() => send.mutate()}
      close={close}
    >
      <TextField label="To" required help="Commas separate several." value={to} set={setTo} />
      <TextField label="Cc" value={cc} set={setCc} />
      <TextField label="Subject" value={subject} set={setSubject} />
      <div class="field">
        <label for={id}>Text</label>
        <textarea id={id} class="input" rows={8} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {answer === 'forward' && <span class="help">The original follows, with its files.</span>}
      </div>
      <div class="field">
        <label for={`${id}-files`}>Files</label>
        <input
          id={`${id}-files`}
          type="file"
          multiple
          onChange={(event) => setFiles([...(event.currentTarget.files ?? [])])}
        />
        {files.length > 0 && <span class="help">{bytes(files.reduce((sum, { size }) => sum + size, 0))} in total</span>}
      </div>
    </DialogForm>
  );
}
