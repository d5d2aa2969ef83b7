import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, BASE, wordsOf } from '../api/client.ts';
import { Notice } from '../ui/parts.tsx';
import { applyTheme } from '../ui/theme.tsx';
import { ConnectForm, type Credentials, type Found, type SignInOffer } from './form.tsx';
import {
  chooseLanguage,
  firstLanguage,
  InLanguage,
  isolated,
  LANGUAGES,
  type Language,
  loadTexts,
  useTexts,
} from './language.ts';
import type { Texts } from './texts/en.ts';

/*
 * The page where the owner of a mailbox connects it. Its only credential is the token in its URL, without key or cookie. It
 * calls `/connect/{token}/…` (src/api/connect-page.ts).
 */

interface Brand {
  name: string;
  color: string | null;
  logo_url: string | null;
}

interface LinkPage {
  status: 'open' | 'used' | 'expired' | 'cancelled';
  brand: Brand;
  address: string | null;
  login: Pick<Found, 'hint' | 'help_url' | 'password_login' | 'provider'> | null;
  sign_in: SignInOffer | null;
  back_url: string | null;
}

const token = location.pathname.split('/').filter(Boolean).at(-1) ?? '';

/** Of the installation, for links that are not known. */
const ownBrand = JSON.parse(document.querySelector<HTMLMetaElement>('meta[name=brand]')?.content ?? '{}') as Brand;

async function call<T>(path: string, body?: unknown): Promise<T> {
  const response = await fetch(`${BASE}/connect/${token}${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
  }).catch(() => {
    throw new ApiFailure(0, {});
  });
  const json = (await response.json().catch(() => undefined)) as unknown;
  if (!response.ok) throw new ApiFailure(response.status, json as { detail: string });
  return json as T;
}

const findServers = (address: string, imapHost?: string) => {
  const query = new URLSearchParams({ address, ...(imapHost === undefined ? {} : { imap_host: imapHost }) });
  return call<Found>(`/servers?${query.toString()}`);
};

/** Whom the API gives the result of a login whose response was lost: this tab, also once it is loaded again. */
const SESSION = `connect ${token}`;
const isReloaded = sessionStorage.getItem(SESSION) !== null;
const session = sessionStorage.getItem(SESSION) ?? newSession();

function newSession(): string {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  const made = bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
  sessionStorage.setItem(SESSION, made);
  return made;
}

interface Result {
  redirect_url: string | null;
}

/** Of the login of this session; undefined: it has not used the link, or the call failed. */
const findResult = () => call<Result>('/result', { session }).catch(() => undefined);

const signIn = async (credentials: Omit<Credentials, 'password'>) => {
  const { url } = await call<{ url: string }>('/sign-in', { credentials });
  location.assign(url);
};

// "back" at the provider's page: this one is shown as it was left, waiting, and its link may have been used since
addEventListener('pageshow', (event) => event.persisted && location.reload());

/** Whether a call may have been done all the same: there was no response, or a proxy gave one. */
const isUnheard = (failure: unknown) =>
  failure instanceof ApiFailure && (failure.status === 0 || (failure.status >= 500 && failure.type === ''));

const isGone = (failure: unknown) => failure instanceof ApiFailure && failure.status === 404;

/** The result that the provider's page came back with; the address bar does not keep it. */
function takeReturned(): { code: string | null; connected: boolean } {
  const query = new URLSearchParams(location.search);
  if (location.search !== '') history.replaceState(null, '', location.pathname);
  return { code: query.get('error'), connected: query.has('connected') };
}

const returned = takeReturned();

/** Why a sign-in at the provider ended without a connected mailbox. */
function reasonOf(texts: Texts): string | undefined {
  return returned.code === null ? undefined : (texts.returned[returned.code] ?? texts.returnedOther);
}

function HostedPage({ first }: { first: Awaited<ReturnType<typeof loadTexts>> }) {
  const [{ language, texts }, setLanguage] = useState(first);
  const [page, setPage] = useState<LinkPage>();
  const [error, setError] = useState<unknown>();
  const [cancelError, setCancelError] = useState<unknown>();
  const [done, setDone] = useState<'connected' | 'cancelled' | undefined>(returned.connected ? 'connected' : undefined);
  useEffect(() => {
    const load = async () => {
      const now = await call<LinkPage>('/link');
      const result = now.status === 'used' && isReloaded ? await findResult() : undefined;
      setPage(now);
      if (result) leave(result.redirect_url, 'connected');
    };
    load().catch(setError);
  }, []);
  const brand = page?.brand ?? (error === undefined ? undefined : ownBrand);
  useEffect(() => {
    document.title = brand ? `${texts.title} – ${brand.name}` : texts.title;
    if (brand) colorize(brand.color);
  }, [texts, brand]);

  const speak = (name: Language) => {
    chooseLanguage(name);
    void loadTexts(name).then(setLanguage);
  };
  const leave = (to: string | null, result: 'connected' | 'cancelled') => {
    // "back" shows that the link is used
    sessionStorage.removeItem(SESSION);
    if (to === null) setDone(result);
    else location.assign(to);
  };
  const hasUnheard = useRef(false);
  /**
   * A login whose response was lost, or during which the page was loaded again, may have used the link; then a further call finds no
   * open one. Where only the reload says so, there may have been no login, and another page used it: the result decides.
   */
  const hasConnected = async (failure: unknown): Promise<boolean> => {
    if (!(hasUnheard.current || isReloaded) || !(isUnheard(failure) || isGone(failure))) return false;
    const now = await call<LinkPage>('/link').catch(() => undefined);
    if (now?.status !== 'used') return false;
    const result = await findResult();
    if (result) leave(result.redirect_url, 'connected');
    // the session remains: once the page is loaded again, it asks for the result
    else if (hasUnheard.current) setDone('connected');
    return result !== undefined || hasUnheard.current;
  };
  const connect = async (credentials: Credentials) => {
    try {
      const { redirect_url } = await call<Result>('', { credentials, session });
      leave(redirect_url, 'connected');
    } catch (failure) {
      hasUnheard.current ||= isUnheard(failure);
      if (!(await hasConnected(failure))) throw failure;
    }
  };
  const cancel = async () => {
    setCancelError(undefined);
    try {
      const { redirect_url } = await call<Result>('/cancel', {});
      leave(redirect_url, 'cancelled');
    } catch (failure) {
      if (await hasConnected(failure)) return;
      // only a link that is gone ends the form
      if (isGone(failure)) setError(failure);
      else setCancelError(failure);
    }
  };

  return (
    <InLanguage.Provider value={texts}>
      <div class="alone">
        <main class="stack">
          {brand && (
            <div class="connect-brand">
              {brand.logo_url && <img src={brand.logo_url} alt="" />}
              <span dir="auto">{brand.name}</span>
            </div>
          )}
          <div class="card pad stack">
            <Content {...{ page, error, cancelError, done, connect }} cancel={() => void cancel()} />
          </div>
          {page?.status === 'open' && done === undefined && (
            <p class="small quiet">{texts.privacy(isolated(page.brand.name))}</p>
          )}
          <LanguageSwitch language={language} choose={speak} />
        </main>
      </div>
    </InLanguage.Provider>
  );
}

function LanguageSwitch({ language, choose }: { language: Language; choose: (language: Language) => void }) {
  const texts = useTexts();
  return (
    <select
      class="input language"
      aria-label={texts.language}
      value={language}
      onChange={(event) => choose(event.currentTarget.value as Language)}
    >
      {Object.entries(LANGUAGES).map(([code, name]) => (
        <option key={code} value={code} lang={code}>
          {name}
        </option>
      ))}
    </select>
  );
}

interface ContentProps {
  page: LinkPage | undefined;
  error: unknown;
  cancelError: unknown;
  done: 'connected' | 'cancelled' | undefined;
  connect: (credentials: Credentials) => Promise<void>;
  cancel: () => void;
}

function Content({ page, error, cancelError, done, connect, cancel }: ContentProps) {
  const texts = useTexts();
  // before a failure: what has been connected stays so
  if (done === 'connected')
    return (
      <>
        <h1>{texts.doneTitle}</h1>
        <Notice tone="good" title={texts.done}>
          {texts.doneText}
        </Notice>
      </>
    );
  if (error !== undefined) return <Broken error={error} who={page?.brand.name ?? ownBrand.name} />;
  if (!page) return <p role="status">{texts.moment}</p>;
  if (page.status !== 'open' || done === 'cancelled') return <Closed status={done ?? page.status} page={page} />;
  return <Open {...{ page, cancelError, connect, cancel }} />;
}

function Open({
  page,
  cancelError,
  connect,
  cancel,
}: Pick<ContentProps, 'cancelError' | 'connect' | 'cancel'> & { page: LinkPage }) {
  const texts = useTexts();
  const [connecting, setConnecting] = useState(false);
  const who = isolated(page.brand.name);
  const reason = reasonOf(texts);
  return (
    <>
      <div>
        <h1>{texts.title}</h1>
        <p class="quiet">{texts.asks(who)}</p>
      </div>
      {reason !== undefined && (
        <Notice tone="bad" title={texts.failed}>
          {reason}
        </Notice>
      )}
      <ConnectForm
        address={page.address ?? undefined}
        findServers={findServers}
        offer={page.sign_in}
        known={page.login ? { imap: null, smtp: null, ...page.login } : undefined}
        signIn={signIn}
        connect={async (credentials) => {
          setConnecting(true);
          await connect(credentials).finally(() => setConnecting(false));
        }}
        action={texts.connect}
        program={page.brand.name}
        whenClosed={texts.closedAdvice(who)}
      />
      {cancelError !== undefined && <Failure error={cancelError} />}
      <button type="button" class="button plain" disabled={connecting} onClick={cancel}>
        {page.back_url === null ? texts.cancel : texts.cancelAndBack}
      </button>
    </>
  );
}

/** A link that is not known, or a failure. */
function Broken({ error, who }: { error: unknown; who: string }) {
  const texts = useTexts();
  if (!isGone(error))
    return (
      <>
        <h1>{texts.wrong}</h1>
        <Failure error={error} />
      </>
    );
  return (
    <>
      <h1>{texts.goneTitle}</h1>
      <p>{reasonOf(texts) ?? texts.goneWhy}</p>
      <p>{texts.askNew(isolated(who))}</p>
    </>
  );
}

function Failure({ error }: { error: unknown }) {
  const texts = useTexts();
  const type = error instanceof ApiFailure ? error.type : '';
  return (
    <Notice tone="bad" title={texts.failed}>
      {texts.failures[type] ?? texts.failedOther}
      {type !== '' && (
        <details class="small quiet">
          <summary>{texts.details}</summary>
          <p lang="en">{wordsOf(error).detail}</p>
        </details>
      )}
    </Notice>
  );
}

/** A link that was used, has expired, or whose owner cancelled. */
function Closed({ status, page: { brand, back_url: back } }: { status: string; page: LinkPage }) {
  const texts = useTexts();
  const [title, text] =
    { used: [texts.usedTitle, texts.usedText], cancelled: [texts.cancelledTitle, texts.cancelledText] }[status] ??
    ([texts.expiredTitle] as string[]);
  return (
    <>
      <h1>{title}</h1>
      <p>
        {text} {texts.askNew(isolated(brand.name))}
      </p>
      {back && (
        <a class="button" href={back}>
          {texts.back}
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

function colorize(color: string | null): void {
  if (color === null) return;
  const { style } = document.documentElement;
  style.setProperty('--accent', color);
  style.setProperty('--accent-hover', color);
  style.setProperty('--accent-ink', inkOn(color));
}

applyTheme();
const root = document.getElementById('app');
if (root) void loadTexts(firstLanguage()).then((first) => render(<HostedPage first={first} />, root));
