import { useQuery } from '@tanstack/preact-query';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation, useSearch } from 'wouter-preact';
import { api, BASE, getPage, postPage, type Session, take } from '../api/client.ts';
import iconUrl from '../icon.svg';
import { TextField } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/parts.tsx';

/** How people can sign in; the page is shown without a session. A failure is no answer: its query is made again. */
function useOptions() {
  return useQuery({
    queryKey: ['sign-in-options'],
    queryFn: () => getPage<{ oidc?: boolean; password?: boolean }>('/sign-in/options'),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

const ERRORS: Record<string, string> = {
  unavailable: 'The identity provider cannot be reached. Try again in a minute.',
  expired: 'The sign-in took more than ten minutes, or began in another browser. Try again.',
  refused: 'The identity provider did not confirm the sign-in. Try again, or ask your administrator.',
  no_role: 'You are in no group that may use this service. Ask your administrator.',
};

/** The way of people: at the identity provider, and back to the page that they asked for; `isOver`: in a tab beside it. */
function WithProvider({ isOver }: { isOver: boolean }) {
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
      <a
        class="button main-action wide"
        href={`${BASE}/sign-in/oidc?return=${encodeURIComponent(page)}`}
        {...(isOver ? { target: '_blank', rel: 'noopener' } : {})}
      >
        Single sign-on{isOver && ', in a new tab'}
      </a>
    </>
  );
}

/** A form that signs in. */
function SignInForm(props: {
  action: string;
  isMain: boolean;
  incomplete: boolean;
  signIn: () => Promise<Session>;
  signedIn: (session: Session) => void;
  children: ComponentChildren;
}) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      props.signedIn(await props.signIn());
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      {props.children}
      <Problem error={error} />
      <button class={`button wide ${props.isMain ? 'main-action' : ''}`} disabled={busy || props.incomplete}>
        {busy ? 'Signing in …' : props.action}
      </button>
    </form>
  );
}

interface Way {
  isMain: boolean;
  signedIn: (session: Session) => void;
}

/** The way of invited people. */
function WithPassword({ isMain, signedIn }: Way) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const signIn = async () => {
    await postPage('/sign-in/password', { email, password });
    return take(api.GET('/api/v1/session'));
  };
  return (
    <SignInForm action="Sign in" incomplete={email.trim() === '' || password === ''} {...{ isMain, signIn, signedIn }}>
      <TextField
        label="Email address"
        type="email"
        autocomplete="username"
        required
        autofocus={isMain}
        value={email}
        set={setEmail}
      />
      <TextField
        label="Password"
        type="password"
        autocomplete="current-password"
        required
        value={password}
        set={setPassword}
      />
    </SignInForm>
  );
}

/** Asks for an API key, and discards it once the session exists. */
function WithKey({ isMain, signedIn, action }: Way & { action: string }) {
  const [key, setKey] = useState('');
  const signIn = () => take(api.POST('/api/v1/session', { headers: { 'X-API-KEY': key.trim() } }));
  return (
    <SignInForm incomplete={key.trim() === ''} {...{ action, isMain, signIn, signedIn }}>
      <TextField
        label="API key"
        type="password"
        autocomplete={isMain ? 'current-password' : 'off'}
        required
        autofocus={isMain}
        value={key}
        set={setKey}
      />
    </SignInForm>
  );
}

/** A page without a session: its content in a card below the name of the product. `isOver`: the document has its main part. */
export function Alone({ children, isOver = false }: { children: ComponentChildren; isOver?: boolean }) {
  const Part = isOver ? 'div' : 'main';
  return (
    <div class="alone">
      <Part class="stack">
        <div class="brand">
          <img src={iconUrl} alt="" width="28" height="28" /> Email API
        </div>
        <div class="card pad stack">{children}</div>
      </Part>
    </div>
  );
}

/** The sign-in after the end of a session: it covers the pages, where what was typed stays. */
export function SignInAgain({ signedIn }: Pick<Way, 'signedIn'>) {
  const ref = useRef<HTMLDialogElement>(null);
  const { isFetched } = useOptions();
  // when its fields are known, so that the first one has the focus
  const show = () => isFetched && !ref.current?.open && ref.current?.showModal();
  useEffect(() => void show(), [isFetched]);
  // Browsers let no page cancel a second Escape, and a third would close the dialog below.
  useEffect(() => {
    const ignoreEscape = (event: KeyboardEvent) => event.key === 'Escape' && event.preventDefault();
    document.addEventListener('keydown', ignoreEscape, true);
    return () => document.removeEventListener('keydown', ignoreEscape, true);
  }, []);
  return (
    <dialog ref={ref} class="over" aria-label="Sign in" onCancel={(event) => event.preventDefault()} onClose={show}>
      <SignIn signedIn={signedIn} isOver />
    </dialog>
  );
}

/** The ways to sign in: at the identity provider, with a password, with an API key. */
export function SignIn({ signedIn, isOver = false }: Pick<Way, 'signedIn'> & { isOver?: boolean }) {
  const { data, isFetched, error, refetch } = useOptions();
  const { oidc = false, password = false } = data ?? {};
  // the first field that is shown has the focus
  if (!isFetched) return <Alone isOver={isOver}>{null}</Alone>;
  return (
    <Alone isOver={isOver}>
      <h1>Sign in</h1>
      {isOver && <p>The session has ended. What you were doing is kept for you.</p>}
      <Problem error={error} retry={() => void refetch()} />
      {oidc && <WithProvider isOver={isOver} />}
      {oidc && password && <p class="quiet small">Or with your password:</p>}
      {password && <WithPassword isMain={!oidc} signedIn={signedIn} />}
      {oidc || password ? (
        <p class="quiet small">Or with an API key:</p>
      ) : (
        <p class="quiet">
          With an API key. <code>npm start</code> prints the first one and stores it in{' '}
          <code>.data/bootstrap-api-key</code>.
        </p>
      )}
      <WithKey action={password ? 'Sign in with the key' : 'Sign in'} isMain={!oidc && !password} signedIn={signedIn} />
    </Alone>
  );
}
