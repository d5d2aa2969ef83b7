import { useMutation, useQuery } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { api, postPage, take } from '../api/client.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { Loading, Problem } from '../ui/parts.tsx';
import { toast } from '../ui/toast.tsx';
import { Alone } from './sign-in.tsx';

const MIN_PASSWORD = 12;

/** A password that is typed twice. */
interface Chosen {
  value: string;
  again: string;
}
const NONE: Chosen = { value: '', again: '' };
const isComplete = ({ value, again }: Chosen) => value !== '' && value === again;

function NewPassword({ chosen, set }: { chosen: Chosen; set: (chosen: Chosen) => void }) {
  const { value, again } = chosen;
  return (
    <>
      <TextField
        label="New password"
        type="password"
        autocomplete="new-password"
        required
        minLength={MIN_PASSWORD}
        help={`At least ${MIN_PASSWORD} characters.`}
        value={value}
        set={(text) => set({ value: text, again })}
      />
      <TextField
        label="New password again"
        type="password"
        autocomplete="new-password"
        required
        help={again !== '' && again !== value ? 'It is not the same yet.' : undefined}
        value={again}
        set={(text) => set({ value, again: text })}
      />
    </>
  );
}

/** The page of an invitation, whose token is behind the `#` of the address. */
export function ChoosePassword() {
  const token = location.hash.slice(1);
  const invited = useQuery({
    queryKey: ['invitation', token],
    queryFn: () => postPage<{ name: string; email: string }>('/sign-in/invitation', { token }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  const [chosen, setChosen] = useState(NONE);
  const accept = useMutation({
    mutationFn: () => postPage('/sign-in/invitation/accept', { token, password: chosen.value }),
  });
  if (accept.isSuccess) {
    return (
      <Alone>
        <h1>Your password is stored</h1>
        <p>Sign in with {invited.data?.email} and this password from now on. The link is used up.</p>
        <Link href="/" class="button main-action wide">
          Go to the sign-in page
        </Link>
      </Alone>
    );
  }
  return (
    <Alone>
      <h1>Choose a password</h1>
      {invited.isPending && <Loading lines={3} />}
      <Problem error={invited.error} />
      {invited.data && (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            accept.mutate();
          }}
        >
          <p>Welcome, {invited.data.name}. You sign in with this address and the password that you choose here.</p>
          <TextField
            label="Email address"
            type="email"
            autocomplete="username"
            readOnly
            value={invited.data.email}
            set={() => {}}
          />
          <NewPassword chosen={chosen} set={setChosen} />
          <Problem error={accept.error} />
          <button class="button wide main-action" disabled={accept.isPending || !isComplete(chosen)}>
            {accept.isPending ? 'One moment …' : 'Store the password'}
          </button>
        </form>
      )}
    </Alone>
  );
}

/** Replaces the password of the person who is signed in. */
export function ChangePassword({ close }: { close: () => void }) {
  const [current, setCurrent] = useState('');
  const [chosen, setChosen] = useState(NONE);
  const replace = useMutation({
    mutationFn: () =>
      take(api.POST('/api/v1/session/password', { body: { current_password: current, new_password: chosen.value } })),
    onSuccess: () => {
      close();
      toast('Your password is changed; your other sessions have ended.');
    },
  });
  return (
    <DialogForm
      title="Change your password"
      action="Change it"
      incomplete={current === '' || !isComplete(chosen)}
      busy={replace.isPending}
      error={replace.error}
      submit={() => replace.mutate()}
      close={close}
    >
      <TextField
        label="Current password"
        type="password"
        autocomplete="current-password"
        required
        value={current}
        set={setCurrent}
      />
      <NewPassword chosen={chosen} set={setChosen} />
    </DialogForm>
  );
}
