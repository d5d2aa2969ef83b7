import { useMutation } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { type Account, api } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { toast } from '../ui/toast.tsx';

/** Sends an email from the mailbox, to itself unless changed. */
export function SendTest({ account, close }: { account: Account; close: () => void }) {
  const [to, setTo] = useState(account.user_id);
  const [subject, setSubject] = useState('A test mail');
  const once = useOnce();
  const send = useMutation({
    mutationFn: () => {
      const params = { path: { account_id: account.id } };
      const body = {
        to: [{ email: to.trim() }],
        subject,
        html: '<p>This mail was sent from the dashboard of your Email API.</p>',
        plain_text: 'This mail was sent from the dashboard of your Email API.',
      };
      return once(body, (headers) => api.POST('/api/v1/{account_id}/emails/send', { params, headers, body }));
    },
    onSuccess: () => {
      toast(`Sent to ${to.trim()}`);
      close();
    },
  });
  return (
    <DialogForm
      title="Send a test mail"
      action="Send"
      busy={send.isPending}
      error={send.error}
      submit={() => send.mutate()}
      close={close}
    >
      <TextField label="To" type="email" required value={to} set={setTo} />
      <TextField label="Subject" required value={subject} set={setSubject} />
    </DialogForm>
  );
}
