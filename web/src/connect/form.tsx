import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { ApiFailure, wordsOf } from '../api/client.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { Notice } from '../ui/parts.tsx';

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
  /** goes to the provider; absent: the form offers no sign-in there */
  signIn?: (credentials: Omit<Credentials, 'password'>) => Promise<void>;
  connect: (credentials: Credentials) => Promise<void>;
  action: string;
  /** what a user does whose provider takes no password */
  whenClosed: string;
  /** further fields, above the button */
  children?: ComponentChildren;
}

type Search = { state: 'none' | 'searching' | 'failed' } | { state: 'done'; address: string; found: Found };

const IMAP: Server = { host: '', port: 993, encryption: 'SSL' };
const SMTP: Server = { host: '', port: 465, encryption: 'SSL' };

/** Form for address and password; discovers the servers, or asks for them. */
export function ConnectForm({
  address: fixed,
  findServers,
  offer: fixedOffer,
  signIn,
  connect,
  action,
  whenClosed,
  children,
}: Props) {
  const [address, setAddress] = useState(fixed ?? '');
  const [password, setPassword] = useState('');
  const [search, setSearch] = useState<Search>({ state: 'none' });
  const [byHand, setByHand] = useState(false);
  const [imap, setImap] = useState(IMAP);
  const [smtp, setSmtp] = useState(SMTP);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const searched = useRef('');

  async function look(): Promise<Found | undefined> {
    const wanted = address.trim();
    if (!/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(wanted)) return undefined;
    if (search.state === 'done' && search.address === wanted) return search.found;
    searched.current = wanted;
    setSearch({ state: 'searching' });
    try {
      const found = await findServers(wanted);
      if (searched.current !== wanted) return undefined;
      setSearch({ state: 'done', address: wanted, found });
      if (found.imap) setImap(found.imap);
      if (found.smtp) setSmtp(found.smtp);
      setByHand((before) => found.password_login !== 'none' && (before || !found.imap || !found.smtp));
      return found;
    } catch {
      if (searched.current === wanted) setSearch({ state: 'failed' });
      return undefined;
    }
  }

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const asked = byHand && imap.host !== '' && smtp.host !== '';
      // a reconnect keeps the servers of the mailbox
      const found = asked || fixed !== undefined ? undefined : await look();
      if (found?.password_login === 'none') {
        setBusy(false);
        return;
      }
      if (!asked && fixed === undefined && (!found?.imap || !found.smtp)) {
        setByHand(true);
        throw new ApiFailure(0, {
          title: 'The servers were not found',
          detail: 'We could not find the mail servers of this address. Please type them in below.',
        });
      }
      await connect({ user: address.trim(), password, ...(asked ? { imap, smtp } : {}) });
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
      const typed = byHand && imap.host !== '' && smtp.host !== '' ? { imap, smtp } : {};
      await signIn?.({ user: address.trim(), ...typed });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const found = search.state === 'done' ? search.found : undefined;
  const offer = signIn && (fixed === undefined ? found?.sign_in : fixedOffer);
  const wayIn = wayInOf(found, offer, byHand);
  const isClosed = wayIn === 'none';
  const takesPassword = wayIn === 'password';
  const typeServers = () => {
    if (isClosed) {
      setImap(IMAP);
      setSmtp(SMTP);
    }
    setByHand(true);
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <TextField
        label="Email address"
        type="email"
        autocomplete="username"
        required
        readOnly={fixed !== undefined}
        value={address}
        set={setAddress}
        onBlur={() => void (fixed === undefined && look())}
      />
      {isClosed ? <ClosedDoor reason={found?.hint} advice={whenClosed} /> : <Servers search={search} />}
      {offer && <Offer offer={offer} busy={busy} go={() => void goToProvider()} />}
      {takesPassword && <Password hint={found} value={password} set={setPassword} />}
      {byHand ? (
        <>
          <ServerFields name="Incoming mail (IMAP)" server={imap} set={setImap} onBlur={() => void lookAgain()} />
          <ServerFields name="Outgoing mail (SMTP)" server={smtp} set={setSmtp} />
        </>
      ) : (
        <button type="button" class="button plain" onClick={typeServers}>
          {isClosed ? 'This mailbox is at another provider' : 'Type the servers in myself'}
        </button>
      )}
      {children}
      {error !== undefined && <Refusal error={error} found={found} />}
      {takesPassword && <Submit isSecond={Boolean(offer)} busy={busy} action={action} />}
    </form>
  );
}

/** How the mailbox can be connected; servers that were typed in may take a password at any provider. */
function wayInOf(
  found: Found | undefined,
  offer: SignInOffer | null | undefined,
  byHand: boolean,
): 'password' | 'sign-in' | 'none' {
  if (offer) return offer.only ? 'sign-in' : 'password';
  return found?.password_login === 'none' && !byHand ? 'none' : 'password';
}

/** In place of a password field, where no password can work. */
function ClosedDoor({ reason, advice }: { reason: string | null | undefined; advice: string }) {
  return (
    <div role="status">
      <Notice tone="warn" title="This mailbox cannot be connected with a password">
        <p>
          {reason}. {advice}
        </p>
      </Notice>
    </div>
  );
}

/** The way to the provider's own page. */
function Offer({ offer, busy, go }: { offer: SignInOffer; busy: boolean; go: () => void }) {
  return (
    <>
      <button type="button" class="button main-action wide" disabled={busy} onClick={go}>
        Continue with {offer.name}
      </button>
      {!offer.only && <p class="small quiet">Or connect with an app password:</p>}
    </>
  );
}

function Password({ hint, value, set }: { hint: Found | undefined; value: string; set: (value: string) => void }) {
  return (
    <>
      {hint?.hint && <Hint hint={hint.hint} url={hint.help_url} />}
      <TextField label="Password" type="password" autocomplete="current-password" required value={value} set={set} />
    </>
  );
}

function Submit({ isSecond, busy, action }: { isSecond: boolean; busy: boolean; action: string }) {
  return (
    <button class={isSecond ? 'button wide' : 'button main-action wide'} disabled={busy}>
      {busy ? 'Logging in …' : action}
    </button>
  );
}

function Servers({ search }: { search: Search }) {
  if (search.state === 'none') return null;
  const text = () => {
    if (search.state === 'searching') return 'Looking for the servers …';
    if (search.state !== 'done') return 'The servers could not be looked up.';
    const { imap, smtp } = search.found;
    if (!imap || !smtp) return 'The servers of this address are not known: please type them in below.';
    return `Found: ${imap.host} for incoming and ${smtp.host} for outgoing mail.`;
  };
  return (
    <p class="small quiet" role="status">
      {text()}
    </p>
  );
}

function Hint({ hint, url }: { hint: string; url: string | null }) {
  return (
    <Notice tone="warn" title="Before you type a password">
      {hint.charAt(0).toUpperCase() + hint.slice(1)}.{' '}
      {url && (
        <a href={url} target="_blank" rel="noopener noreferrer">
          How to make one
        </a>
      )}
    </Notice>
  );
}

interface ServerFieldsProps {
  name: string;
  server: Server;
  set: (server: Server) => void;
  onBlur?: () => void;
}

function ServerFields({ name, server, set, onBlur }: ServerFieldsProps) {
  return (
    <fieldset class="stack-s">
      <legend>{name}</legend>
      <div class="servers">
        <TextField
          label="Server"
          required
          value={server.host}
          set={(host) => set({ ...server, host: host.trim() })}
          {...(onBlur ? { onBlur } : {})}
        />
        <TextField
          label="Port"
          type="number"
          min={1}
          max={65535}
          required
          value={String(server.port)}
          set={(port) => set({ ...server, port: Number(port) })}
        />
        <SelectField
          label="Encryption"
          value={server.encryption.toUpperCase()}
          set={(encryption) => set({ ...server, encryption })}
          options={[
            { value: 'SSL', label: 'SSL/TLS' },
            { value: 'STARTTLS', label: 'STARTTLS' },
            { value: 'NONE', label: 'None' },
          ]}
        />
      </div>
    </fieldset>
  );
}

const MEANING: Record<string, string> = {
  'errors/invalid_credentials':
    'The mail server did not accept this address and password. Check both. Many providers ask for an app password.',
  'errors/provider_error': 'The mail server could not be reached, or did not answer as expected.',
  'errors/already_exists': 'This mailbox belongs to another account.',
  'errors/too_many_requests': 'Too many attempts. Please wait a minute.',
  'errors/service_unavailable': 'The service is not available just now. Please try again in a moment.',
};

/** Explains an error in plain words, then quotes the server. */
function Refusal({ error, found }: { error: unknown; found: Found | undefined }) {
  const { title, detail } = wordsOf(error);
  const meaning = error instanceof ApiFailure ? MEANING[error.type] : undefined;
  return (
    <Notice tone="bad" title={meaning === undefined ? title : 'That did not work'}>
      <p>{meaning ?? detail}</p>
      {meaning !== undefined && <p class="small quiet">The server says: {detail}</p>}
      {found?.help_url && error instanceof ApiFailure && error.status === 401 && (
        <p>
          <a href={found.help_url} target="_blank" rel="noopener noreferrer">
            How to make an app password
          </a>
        </p>
      )}
    </Notice>
  );
}
