import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiFailure, BASE, wordsOf } from '../api/client.ts';
import { Notice } from '../ui/parts.tsx';
import { applyTheme } from '../ui/theme.tsx';
import { ConnectForm, type Credentials, type Found, type SignInOffer } from './form.tsx';

/*
 * The page where the owner of a mailbox connects it. Its only credential is the token in its URL, without key or cookie. It
 * calls `/connect/{token}/…` (src/api/connect-page.ts).
 */

interface LinkPage {
  status: 'open' | 'used' | 'expired' | 'cancelled';
  brand: { name: string; color: string | null; logo_url: string | null };
  address: string | null;
  sign_in: SignInOffer | null;
  back_url: string | null;
}

const token = location.pathname.split('/').filter(Boolean).at(-1) ?? '';

async function call<T>(path: string, body?: unknown): Promise<T> {
  const response = await fetch(`${BASE}/connect/${token}${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
  }).catch(() => {
    throw new ApiFailure(0, { title: 'Not reachable', detail: 'the server cannot be reached: please try again' });
  });
  const json = (await response.json().catch(() => undefined)) as unknown;
  if (!response.ok) throw new ApiFailure(response.status, json as { detail: string });
  return json as T;
}

const findServers = (address: string, imapHost?: string) => {
  const query = new URLSearchParams({ address, ...(imapHost === undefined ? {} : { imap_host: imapHost }) });
  return call<Found>(`/servers?${query.toString()}`);
};

const signIn = async (credentials: Omit<Credentials, 'password'>) => {
  const { url } = await call<{ url: string }>('/sign-in', { credentials });
  location.assign(url);
};

/** Why a sign-in at the provider ended without a connected mailbox, by the code in the URL. */
const RETURNED: Record<string, string> = {
  access_denied: 'You did not allow access. Nothing was connected.',
  other_address: 'You signed in with another address than the one to connect. Please sign in with that address.',
  invalid_credentials: 'The mail server did not accept the sign-in. IMAP may be switched off for this mailbox.',
  provider_rejected:
    'The provider does not accept this service at present. Whoever sent you the link has to correct that.',
  provider_error: 'The mail server could not be reached, or did not answer as expected.',
  already_exists: 'This mailbox belongs to another account.',
  too_many_requests: 'Too many attempts. Please wait a minute.',
  expired: 'The sign-in took too long, or was begun in another browser. Please open the link again.',
};

/** The result that the provider's page came back with; the address bar does not keep it. */
function takeReturned(): { error: string | undefined; connected: boolean } {
  const query = new URLSearchParams(location.search);
  if (location.search !== '') history.replaceState(null, '', location.pathname);
  const code = query.get('error');
  const error = code === null ? undefined : (RETURNED[code] ?? 'The sign-in at the provider failed. Please try again.');
  return { error, connected: query.has('connected') };
}

const returned = takeReturned();

function HostedPage() {
  const [page, setPage] = useState<LinkPage>();
  const [error, setError] = useState<unknown>();
  const [done, setDone] = useState<'connected' | 'cancelled' | undefined>(returned.connected ? 'connected' : undefined);
  useEffect(() => {
    call<LinkPage>('/link').then((link) => {
      brand(link);
      setPage(link);
    }, setError);
  }, []);

  const leave = (to: string | null, result: 'connected' | 'cancelled') => {
    if (to === null) setDone(result);
    else location.assign(to);
  };
  const connect = async (credentials: Credentials) => {
    const { redirect_url } = await call<{ redirect_url: string | null }>('', { credentials });
    leave(redirect_url, 'connected');
  };
  const cancel = async () => {
    try {
      const { redirect_url } = await call<{ redirect_url: string | null }>('/cancel', {});
      leave(redirect_url, 'cancelled');
    } catch (failure) {
      setError(failure);
    }
  };

  return (
    <div class="alone">
      <main class="stack">
        {page && (
          <div class="connect-brand">
            {page.brand.logo_url && <img src={page.brand.logo_url} alt="" />}
            <span>{page.brand.name}</span>
          </div>
        )}
        <div class="card pad stack">
          <Content page={page} error={error} done={done} connect={connect} cancel={() => void cancel()} />
        </div>
        {page?.status === 'open' && done === undefined && (
          <p class="small quiet">
            Your password or sign-in is stored encrypted. {page.brand.name} reads and sends mail with it until the
            mailbox is removed here, or you change the password or withdraw access at your provider.
          </p>
        )}
      </main>
    </div>
  );
}

interface ContentProps {
  page: LinkPage | undefined;
  error: unknown;
  done: 'connected' | 'cancelled' | undefined;
  connect: (credentials: Credentials) => Promise<void>;
  cancel: () => void;
}

function Content({ page, error, done, connect, cancel }: ContentProps) {
  if (error !== undefined) {
    const isGone = error instanceof ApiFailure && error.status === 404;
    const why = isGone ? (returned.error ?? 'It may have been copied incompletely.') : wordsOf(error).detail;
    return (
      <>
        <h1>{isGone ? 'This link does not work' : 'Something went wrong'}</h1>
        <Notice tone="bad" title={isGone ? 'Please ask for a new link' : wordsOf(error).title}>
          {why}
        </Notice>
      </>
    );
  }
  if (!page) return <p role="status">One moment …</p>;
  if (done === 'connected')
    return (
      <>
        <h1>Your mailbox is connected</h1>
        <Notice tone="good" title="All done">
          You can close this page.
        </Notice>
      </>
    );
  if (page.status !== 'open' || done === 'cancelled')
    return <Closed status={done ?? page.status} back={page.back_url} />;
  return (
    <>
      <div>
        <h1>Connect your mailbox</h1>
        <p class="quiet">{page.brand.name} asks to read and send mail for you.</p>
      </div>
      {returned.error !== undefined && (
        <Notice tone="bad" title="That did not work">
          {returned.error}
        </Notice>
      )}
      <ConnectForm
        address={page.address ?? undefined}
        findServers={findServers}
        offer={page.sign_in}
        signIn={signIn}
        connect={connect}
        action="Connect mailbox"
        whenClosed="Please use another address, or cancel and tell whoever sent you the link."
      />
      <button type="button" class="button plain" onClick={cancel}>
        Cancel{page.back_url === null ? '' : ' and go back'}
      </button>
    </>
  );
}

const CLOSED: Record<string, [string, string]> = {
  used: ['This link was used already', 'A mailbox was connected with it. For another one, please ask for a new link.'],
  expired: ['This link has expired', 'Please ask for a new one.'],
  cancelled: ['Nothing was connected', 'This link no longer works. Please ask for a new one if you need it.'],
};

function Closed({ status, back }: { status: string; back: string | null }) {
  const [title, text] = CLOSED[status] ?? ['This link does not work', 'Please ask for a new one.'];
  return (
    <>
      <h1>{title}</h1>
      <p>{text}</p>
      {back && (
        <a class="button" href={back}>
          Go back
        </a>
      )}
    </>
  );
}

/** White or black: the readable one on a color (WCAG relative luminance). */
function inkOn(color: string): string {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#0b0d12' : '#ffffff';
}

function brand({ brand: { name, color } }: LinkPage): void {
  document.title = `Connect your mailbox – ${name}`;
  if (color === null) return;
  const { style } = document.documentElement;
  style.setProperty('--accent', color);
  style.setProperty('--accent-hover', color);
  style.setProperty('--accent-ink', inkOn(color));
}

applyTheme();
const root = document.getElementById('app');
if (root) render(<HostedPage />, root);
