import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { TextField } from '../ui/field.tsx';
import {
  ClosedDoor,
  Offer,
  PORTS,
  Password,
  Refusal,
  ServerFields,
  Servers,
  ServersUnknown,
  Submit,
  TypeServers,
  type Search,
} from './form-parts.tsx';
import { useTexts } from './language.ts';

export interface Server {
  host: string;
  port: number;
  encryption: string;
}

/** The servers of an address, and a hint of its provider. */
export interface Found {
  imap: Server | null;
  smtp: Server | null;
  hint: string | null;
  help_url: string | null;
  /** `none`: no password connects the mailbox, and `hint` says why */
  password_login: 'password' | 'app_password' | 'none';
  /** a code of the provider that `hint` is about */
  provider: string | null;
  /** a provider where the owner signs in, in place of a password; `only`: it accepts no passwords */
  sign_in?: SignInOffer | null;
}

export interface SignInOffer {
  name: string;
  only: boolean;
}

export interface Credentials {
  user: string;
  password: string;
  imap?: Server;
  smtp?: Server;
}

interface Props {
  /** the address, when it is fixed */
  address?: string | undefined;
  findServers: (address: string, imapHost?: string) => Promise<Found>;
  /** of the fixed address */
  offer?: SignInOffer | null | undefined;
  /** what logins at the server of the fixed address take */
  known?: Found | undefined;
  /** goes to the provider; absent: the form offers no sign-in there */
  signIn?: (credentials: Omit<Credentials, 'password'>) => Promise<void>;
  connect: (credentials: Credentials) => Promise<void>;
  action: string;
  /** who asks: a name for an app password */
  program: string;
  /** what a user does whose provider takes no password */
  whenClosed: string;
  /** shows servers and the words of servers, which owners of mailboxes need not know */
  isTechnical?: boolean;
  /** further fields, above the button */
  children?: ComponentChildren;
}

const IMAP: Server = { host: '', port: PORTS.imap.SSL, encryption: 'SSL' };
const SMTP: Server = { host: '', port: PORTS.smtp.SSL, encryption: 'SSL' };

/** Form for address and password; discovers the servers, or asks for them. */
export function ConnectForm({
  address: fixed,
  findServers,
  offer: fixedOffer,
  known,
  signIn,
  connect,
  action,
  program,
  whenClosed,
  isTechnical = false,
  children,
}: Props) {
  const texts = useTexts();
  const [address, setAddress] = useState(fixed ?? '');
  const [password, setPassword] = useState('');
  const [search, setSearch] = useState<Search>({ state: 'none' });
  const [byHand, setByHand] = useState(false);
  const [imap, setImap] = useState(IMAP);
  const [smtp, setSmtp] = useState(SMTP);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const searched = useRef('');
  /** whose servers are shown: of the domain, or of none yet; and whether its owner typed them */
  const shownFor = useRef({ domain: '', areTyped: false });

  /** Shows the servers that were found for an address, unless those that are shown were typed in for it. */
  function show(wanted: string, found: Pick<Found, 'imap' | 'smtp'>): void {
    const areTyped = areTypedFor(wanted);
    shownFor.current = { domain: domainOf(wanted), areTyped };
    if (areTyped) return;
    setImap(found.imap ?? IMAP);
    setSmtp(found.smtp ?? SMTP);
  }

  function typed(set: (server: Server) => void, server: Server): void {
    // the other side is not of this domain either
    if (!areShownFor(address)) show(address, { imap: null, smtp: null });
    shownFor.current = { domain: domainOf(address), areTyped: server.host !== '' };
    set(server);
  }

  function areShownFor(wanted: string): boolean {
    return ['', domainOf(wanted)].includes(shownFor.current.domain);
  }

  function areTypedFor(wanted: string): boolean {
    return shownFor.current.areTyped && areShownFor(wanted);
  }

  /** Those that are shown; undefined: they are hidden, incomplete, or of the domain that was typed before. */
  function serversShown(): { imap: Server; smtp: Server } | undefined {
    return byHand && areShownFor(address) && imap.host !== '' && smtp.host !== '' ? { imap, smtp } : undefined;
  }

  /** Looks the servers up; undefined: it is no address, or another one has been typed since. @throws as `findServers` */
  async function look(): Promise<Found | undefined> {
    const wanted = address.trim();
    searched.current = wanted;
    if (!/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(wanted)) {
      setSearch({ state: 'none' });
      return undefined;
    }
    if (search.state === 'done' && search.address === wanted) return search.found;
    setSearch({ state: 'searching' });
    try {
      const found = await findServers(wanted);
      if (searched.current !== wanted) return undefined;
      setSearch({ state: 'done', address: wanted, found });
      const areTyped = areTypedFor(wanted);
      show(wanted, found);
      setByHand((before) => areTyped || (found.password_login !== 'none' && (before || !found.imap || !found.smtp)));
      return found;
    } catch (failure) {
      if (searched.current === wanted) setSearch({ state: 'failed' });
      throw failure;
    }
  }

  /** Whether a password can go to servers that are found; false: the page says why not. @throws ServersUnknown, or as `findServers` */
  async function isFound(): Promise<boolean> {
    const found = await look();
    if (searched.current !== address.trim() || found?.password_login === 'none') return false;
    if (found?.imap && found.smtp) return true;
    if (!found) show(address, { imap: null, smtp: null });
    setByHand(true);
    throw new ServersUnknown();
  }

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (!takesPassword) return;
    setBusy(true);
    setError(undefined);
    try {
      const asked = serversShown();
      // a reconnect keeps the servers of the mailbox
      if (!asked && fixed === undefined && !(await isFound())) {
        setBusy(false);
        return;
      }
      await connect({ user: address.trim(), password, ...asked });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  /** An app may be set up for servers that were typed in. */
  async function lookAgain(): Promise<void> {
    if (fixed !== undefined || imap.host === '' || search.state !== 'done') return;
    const again = await findServers(search.address, imap.host).catch(() => undefined);
    if (again)
      setSearch((now) =>
        now.state === 'done' ? { ...now, found: { ...now.found, sign_in: again.sign_in ?? null } } : now,
      );
  }

  async function goToProvider(): Promise<void> {
    setBusy(true);
    setError(undefined);
    try {
      await signIn?.({ user: address.trim(), ...serversShown() });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const found = search.state === 'done' ? search.found : known;
  const offer = signIn && (fixed === undefined ? found?.sign_in : fixedOffer);
  const wayIn = wayInOf(found, offer, byHand);
  const isClosed = wayIn === 'none';
  const takesPassword = wayIn === 'password';
  const typeServers = () => {
    if (isClosed) {
      shownFor.current = { domain: '', areTyped: false };
      setImap(IMAP);
      setSmtp(SMTP);
    }
    setByHand(true);
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <TextField
        label={texts.address}
        dir="ltr"
        type="email"
        autocomplete="username"
        required
        readOnly={fixed !== undefined}
        value={address}
        set={setAddress}
        onBlur={() => void (fixed === undefined && look().catch(() => undefined))}
      />
      {isClosed ? (
        <ClosedDoor found={found} advice={whenClosed} />
      ) : (
        <Servers search={search} isTechnical={isTechnical} />
      )}
      {offer && <Offer offer={offer} busy={busy} go={() => void goToProvider()} />}
      {takesPassword && <Password found={found} program={program} value={password} set={setPassword} />}
      {byHand ? (
        <>
          <ServerFields
            name={texts.incoming}
            ports={PORTS.imap}
            server={imap}
            set={(server) => typed(setImap, server)}
            onBlur={() => {
              // most often the outgoing server has the same name
              if (smtp.host === '') setSmtp({ ...smtp, host: imap.host.replace(/^imap\./, 'smtp.') });
              void lookAgain();
            }}
          />
          <ServerFields
            name={texts.outgoing}
            ports={PORTS.smtp}
            server={smtp}
            set={(server) => typed(setSmtp, server)}
          />
        </>
      ) : (
        // a reconnect keeps the provider
        !(isClosed && fixed !== undefined) && <TypeServers isClosed={isClosed} go={typeServers} />
      )}
      {children}
      {error !== undefined && <Refusal error={error} found={found} isTechnical={isTechnical} />}
      {takesPassword && <Submit isSecond={Boolean(offer)} busy={busy} action={action} />}
    </form>
  );
}

/** Servers are those of a domain: an address that is corrected keeps them. */
const domainOf = (address: string) => (address.includes('@') ? address.trim().toLowerCase().replace(/^.*@/, '') : '');

/** How the mailbox can be connected; servers that were typed in may take a password at any provider. */
function wayInOf(
  found: Found | undefined,
  offer: SignInOffer | null | undefined,
  byHand: boolean,
): 'password' | 'sign-in' | 'none' {
  if (offer) return offer.only ? 'sign-in' : 'password';
  return found?.password_login === 'none' && !byHand ? 'none' : 'password';
}
