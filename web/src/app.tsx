import { useQuery } from '@tanstack/preact-query';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Link, Redirect, Route, Switch, useLocation, useSearch } from 'wouter-preact';
import { api, ApiFailure, BASE, type Session, take, wordsOf } from './api/client.ts';
import { useMay, mayOf } from './access/may.tsx';
import { identityOf, useSession } from './access/session.ts';
import { ClosedPage, OwnOverviewPage } from './access/own-overview.tsx';
import { ChangePassword, ChoosePassword } from './access/passwords.tsx';
import { SignIn, SignInAgain } from './access/sign-in.tsx';
import iconUrl from './icon.svg';
import { BatchPage } from './mail/batch.tsx';
import { SearchPage } from './mail/search-page.tsx';
import { ThreadPage } from './mail/thread-page.tsx';
import { AppsPage } from './pages/oauth-apps/page.tsx';
import { AuditPage } from './pages/audit.tsx';
import { DeliveriesPage } from './pages/deliveries/page.tsx';
import { DeliveryPage } from './pages/deliveries/delivery.tsx';
import { EmailPage } from './pages/email.tsx';
import { EndpointPage } from './pages/endpoint.tsx';
import { EndpointsPage } from './pages/endpoints.tsx';
import { EventsPage } from './pages/events.tsx';
import { Find } from './pages/find.tsx';
import { useInstallation, workflowsUrl } from './pages/installation.ts';
import { KeysPage } from './pages/keys.tsx';
import { LinksPage } from './pages/links.tsx';
import { MailboxPage } from './pages/mailbox.tsx';
import { MailboxesPage } from './pages/mailboxes.tsx';
import { ConnectPage } from './pages/connect-mailbox.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { PeoplePage } from './pages/people.tsx';
import { ReplayPage } from './pages/deliveries/replay.tsx';
import { SettingsPage } from './pages/settings.tsx';
import { useArrival } from './ui/arrival.ts';
import { Icon, type IconName } from './ui/icons.tsx';
import { useKeys } from './ui/keys.tsx';
import { Empty, Page, Problem } from './ui/parts.tsx';
import { SkipLink } from './ui/skip.tsx';
import { timesShown } from './ui/format.ts';
import { ThemeSwitch } from './ui/theme.tsx';
import { TimesSwitch } from './ui/times.tsx';
import { Toasts, toast } from './ui/toast.tsx';

/** The dashboard, or the sign-in page without a session. */
export function App() {
  const [location] = useLocation();
  const { session, hasEnded, signedIn, signedOut } = useSession();
  if (location === '/sign-in/invitation') return <ChoosePassword />;
  if (session.isPending) return null;
  if (session.error && !session.data)
    return (
      <div class="alone">
        <main>
          <Problem error={session.error} retry={() => void session.refetch()} />
        </main>
      </div>
    );
  if (!session.data) return <SignIn signedIn={signedIn} />;
  return (
    <>
      <Shell key={identityOf(session.data)} session={session.data} signedOut={signedOut} />
      {hasEnded && <SignInAgain signedIn={signedIn} />}
    </>
  );
}

/** `all`: sections of the installation, which a key of some mailboxes does not see */
const SECTIONS: { href: string; name: string; icon: IconName; key: string; all?: true }[] = [
  { href: '/', name: 'Overview', icon: 'overview', key: 'o' },
  { href: '/mailboxes', name: 'Mailboxes', icon: 'mailboxes', key: 'm' },
  { href: '/deliveries', name: 'Deliveries', icon: 'deliveries', key: 'd' },
  { href: '/endpoints', name: 'Endpoints', icon: 'endpoints', key: 'e', all: true },
  { href: '/events', name: 'Events', icon: 'events', key: 'v' },
  { href: '/keys', name: 'Keys', icon: 'keys', key: 'k', all: true },
  { href: '/audit', name: 'Audit', icon: 'audit', key: 'a', all: true },
  { href: '/settings', name: 'Settings', icon: 'settings', key: 's', all: true },
];

function Shell({ session, signedOut }: { session: Session; signedOut: () => void }) {
  const [location] = useLocation();
  const { seeAll } = mayOf(session);
  const sections = useMemo(() => SECTIONS.filter(({ all }) => !all || seeAll), [seeAll]);
  const keys = useKeys(useMemo(() => new Map(sections.map((section) => [section.key, section])), [sections]));
  const [times, setTimes] = useState(timesShown);
  const signOut = async () => {
    try {
      await take(api.DELETE('/api/v1/session'));
      signedOut();
    } catch (failure) {
      // 401: it has ended before
      if (failure instanceof ApiFailure && failure.status === 401) signedOut();
      else toast(`Not signed out: ${wordsOf(failure).detail}`);
    }
  };
  useArrival(location);
  useEffect(() => {
    // on a narrow screen the sections are a scrolling row
    document.querySelector('.nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [location]);
  const isHere = (href: string) => (href === '/' ? location === '/' : location.startsWith(href));
  const filters = useFiltersOfSections();
  return (
    <>
      <SkipLink />
      <div class="shell">
        <aside class="side">
          <Link href="/" class="brand">
            <img src={iconUrl} alt="" width="28" height="28" />
            Email API
          </Link>
          <Find />
          <nav class="nav" aria-label="Sections">
            {sections.map(({ href, name, icon }) => (
              <Link key={href} href={filters(href)} {...(isHere(href) ? { 'aria-current': 'page' } : {})}>
                <Icon name={icon} />
                {name}
              </Link>
            ))}
            <a href={`${BASE}/docs/`}>
              <Icon name="documents" />
              Documents
            </a>
            <a href={`${BASE}/docs/reference`}>
              <Icon name="reference" />
              Reference
            </a>
          </nav>
          <div class="side-foot">
            <span class="who quiet">
              {session.person ? 'Signed in as' : 'Signed in with the key'}{' '}
              <strong>{session.person?.name ?? session.api_key_name}</strong>
            </span>
            {session.person?.source === 'invitation' && <OwnPassword />}
            <Installation keys={keys.open} />
            <TimesSwitch times={times} changed={setTimes} />
            <ThemeSwitch />
            <button type="button" class="button small" onClick={() => void signOut()}>
              Sign out
            </button>
          </div>
        </aside>
        <main class="main" id="content" tabIndex={-1}>
          <Pages key={times} />
        </main>
      </div>
      <Toasts />
      {keys.dialog}
    </>
  );
}

/** The address of a section with the filters that it had last; where it is shown, without: a click clears them. */
function useFiltersOfSections(): (href: string) => string {
  const [location] = useLocation();
  const search = useSearch();
  const [last] = useState(() => new Map<string, string>());
  const filters = new URLSearchParams(search);
  for (const position of ['cursor', 'offset']) filters.delete(position);
  last.set(location, filters.toString());
  return (href) => (href !== location && last.get(href) ? `${href}?${last.get(href)}` : href);
}

/** Offers people with a password to change it. */
function OwnPassword() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        Change password
      </button>
      {isOpen && <ChangePassword close={() => setOpen(false)} />}
    </>
  );
}

/** The version, and what else an operator looks for. */
function Installation({ keys }: { keys: () => void }) {
  const health = useQuery({ queryKey: ['health'], queryFn: () => take(api.GET('/health')), staleTime: 60_000 });
  const { seeAll } = useMay();
  return (
    <span class="who quiet">
      {health.data && `Version ${health.data.version} · `}
      {seeAll && (
        <>
          <TemporalLink />
          <a href={`${BASE}/metrics`}>Metrics</a> ·{' '}
        </>
      )}
      <button type="button" class="button plain small" onClick={keys} aria-keyshortcuts="?">
        Shortcuts
      </button>
    </span>
  );
}

function TemporalLink() {
  const installation = useInstallation();
  const url = workflowsUrl(installation.data);
  return (
    url !== undefined && (
      <>
        <a href={url} target="_blank" rel="noopener noreferrer">
          Temporal
        </a>{' '}
        ·{' '}
      </>
    )
  );
}

/** Pages of the installation. */
const OF_ALL = /^\/(endpoints|keys|audit|settings|replays|mailboxes\/(links|apps))(\/|$)/;

function Pages() {
  const [location] = useLocation();
  const isReconnect = new URLSearchParams(useSearch()).has('account');
  const { change, seeAll, manage } = useMay();
  if (!seeAll && OF_ALL.test(location)) return <ClosedPage />;
  return (
    <Switch>
      <Route path="/">{seeAll ? <OverviewPage /> : <OwnOverviewPage />}</Route>
      <Route path="/sign-in">
        <Redirect to="/" />
      </Route>
      <Route path="/mailboxes">
        <MailboxesPage />
      </Route>
      <Route path="/mailboxes/connect">{manage || (change && isReconnect) ? <ConnectPage /> : <ClosedPage />}</Route>
      <Route path="/mailboxes/links">
        <LinksPage />
      </Route>
      <Route path="/mailboxes/search">
        <SearchPage />
      </Route>
      <Route path="/mailboxes/apps">
        <AppsPage />
      </Route>
      <Route path="/mailboxes/:id/emails/:email">
        {({ id, email }) => <EmailPage key={email} account={id} id={email} />}
      </Route>
      <Route path="/mailboxes/:id/threads/:thread">
        {({ id, thread }) => <ThreadPage key={thread} account={id} id={thread} />}
      </Route>
      <Route path="/mailboxes/:id/batches/:batch">
        {({ id, batch }) => <BatchPage key={batch} account={id} id={batch} />}
      </Route>
      <Route path="/mailboxes/:id">{({ id }) => <MailboxPage key={id} id={id} />}</Route>
      <Route path="/deliveries">
        <DeliveriesPage />
      </Route>
      <Route path="/deliveries/:id">{({ id }) => <DeliveryPage key={id} id={id} />}</Route>
      <Route path="/replays/:id">{({ id }) => <ReplayPage key={id} id={id} />}</Route>
      <Route path="/endpoints">
        <EndpointsPage />
      </Route>
      <Route path="/endpoints/:id">{({ id }) => <EndpointPage key={id} id={id} />}</Route>
      <Route path="/events">
        <EventsPage />
      </Route>
      <Route path="/keys/people">
        <PeoplePage />
      </Route>
      <Route path="/keys">
        <KeysPage />
      </Route>
      <Route path="/audit">
        <AuditPage />
      </Route>
      <Route path="/settings">
        <SettingsPage />
      </Route>
      <Route>
        <Page title="Not found">
          <div class="card">
            <Empty title="Page not found" action={<Link href="/">Go to the overview</Link>} />
          </div>
        </Page>
      </Route>
    </Switch>
  );
}
