import { useState } from 'preact/hooks';
import { api, type Session, take } from '../api/client.ts';
import iconUrl from '../icon.svg';
import { TextField } from '../ui/field.tsx';
import { Problem } from '../ui/parts.tsx';

/** Asks for an API key, and discards it once the session exists. */
export function SignIn({ signedIn }: { signedIn: (session: Session) => void }) {
  const [key, setKey] = useState('');
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      signedIn(await take(api.POST('/api/v1/session', { headers: { 'X-API-KEY': key.trim() } })));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <div class="alone">
      <main class="stack">
        <div class="brand">
          <img src={iconUrl} alt="" width="28" height="28" /> Email API
        </div>
        <form class="card pad stack" onSubmit={(event) => void submit(event)}>
          <h1>Sign in</h1>
          <p class="quiet">
            With an API key. <code>npm start</code> prints the first one and stores it in{' '}
            <code>.data/bootstrap-api-key</code>.
          </p>
          <TextField
            label="API key"
            type="password"
            autocomplete="current-password"
            required
            autofocus
            value={key}
            set={setKey}
          />
          <Problem error={error} />
          <button class="button main-action wide" disabled={busy || key.trim() === ''}>
            {busy ? 'Signing in …' : 'Sign in'}
          </button>
        </form>
      </main>
    </div>
  );
}
