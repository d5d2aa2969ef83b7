import { useQuery } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { useLocation, useSearch } from 'wouter-preact';
import { api, BASE, type Session, take } from '../api/client.ts';
import iconUrl from '../icon.svg';
import { TextField } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/parts.tsx';

/** How people can sign in; the page is shown without a session. */
function useOptions() {
  return useQuery({
    queryKey: ['sign-in-options'],
    queryFn: async () => (await (await fetch(`${BASE}/sign-in/options`)).json()) as { oidc: boolean },
    staleTime: Number.POSITIVE_INFINITY,
  });
}

const ERRORS: Record<string, string> = {
  unavailable: 'The identity provider cannot be reached. Try again in a minute.',
  expired: 'The sign-in took more than ten minutes, or began in another browser. Try again.',
  refused: 'The identity provider did not confirm the sign-in. Try again, or ask your administrator.',
  no_role: 'You are in no group that may use this service. Ask your administrator.',
};

/** The way of people: at the identity provider, and back to the page that they asked for. */
function WithProvider() {
  const [location] = useLocation();
  const search = useSearch();
  const error = ERRORS[new URLSearchParams(search).get('error') ?? ''];
  const page = location === '/sign-in' ? '/' : `${location}${search && `?${search}`}`;
  return (
    <>
      {location === '/sign-in' && error && (
        <Notice tone="bad" title="Not signed in">
          {error}
        </Notice>
      )}
      <a class="button main-action wide" href={`${BASE}/sign-in/oidc?return=${encodeURIComponent(page)}`}>
        Single sign-on
      </a>
      <p class="quiet small">Or with an API key:</p>
    </>
  );
}

/** Leads people to their identity provider. Asks for an API key, and discards it once the session exists. */
export function SignIn({ signedIn }: { signedIn: (session: Session) => void }) {
  const [key, setKey] = useState('');
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const byProvider = useOptions().data?.oidc ?? false;
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
          {byProvider ? (
            <WithProvider />
          ) : (
            <p class="quiet">
              With an API key. <code>npm start</code> prints the first one and stores it in{' '}
              <code>.data/bootstrap-api-key</code>.
            </p>
          )}
          <TextField
            label="API key"
            type="password"
            autocomplete="current-password"
            required
            autofocus={!byProvider}
            value={key}
            set={setKey}
          />
          <Problem error={error} />
          <button class={`button wide ${byProvider ? '' : 'main-action'}`} disabled={busy || key.trim() === ''}>
            {busy ? 'Signing in …' : 'Sign in'}
          </button>
        </form>
      </main>
    </div>
  );
}
