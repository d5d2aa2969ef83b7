import { useState } from 'preact/hooks';
import { ApiFailure, wordsOf } from '../api/client.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { Notice } from '../ui/parts.tsx';
import type { Found, Server, SignInOffer } from './form.tsx';
import { useTexts } from './language.ts';
import { Steps } from './steps.tsx';

export type Search = { state: 'none' | 'searching' | 'failed' } | { state: 'done'; address: string; found: Found };

/** The owner has to type the servers in. */
export class ServersUnknown extends Error {}

/** In place of a password field, where no password can work. */
export function ClosedDoor({ found, advice }: { found: Found | undefined; advice: string }) {
  const texts = useTexts();
  return (
    <div role="status">
      <Notice tone="warn" title={texts.closedTitle}>
        <p>
          {texts.closed[found?.provider ?? ''] ?? texts.closedOther} {advice}
        </p>
      </Notice>
    </div>
  );
}

/** The way to the provider's own page. */
export function Offer({ offer, busy, go }: { offer: SignInOffer; busy: boolean; go: () => void }) {
  const texts = useTexts();
  return (
    <>
      <button type="button" class="button main-action wide" disabled={busy} onClick={go}>
        {texts.continueWith(offer.name)}
      </button>
      {!offer.only && <p class="small quiet">{texts.orAppPassword}</p>}
    </>
  );
}

interface PasswordProps {
  found: Found | undefined;
  /** for the name of an app password */
  program: string;
  value: string;
  set: (value: string) => void;
}

/** The password, which can be shown. */
export function Password({ found, program, value, set }: PasswordProps) {
  const texts = useTexts();
  const [isShown, setShown] = useState(false);
  return (
    <>
      {found && <Steps found={found} program={program} />}
      <TextField
        label={found?.password_login === 'app_password' ? texts.appPassword : texts.password}
        type={isShown ? 'text' : 'password'}
        dir="ltr"
        autocomplete="current-password"
        autocapitalize="none"
        spellcheck={false}
        required
        value={value}
        set={set}
      />
      <label class="check">
        <input type="checkbox" checked={isShown} onChange={(event) => setShown(event.currentTarget.checked)} />
        {texts.show}
      </label>
    </>
  );
}

export function Submit({ isSecond, busy, action }: { isSecond: boolean; busy: boolean; action: string }) {
  const texts = useTexts();
  return (
    <button class={isSecond ? 'button wide' : 'button main-action wide'} disabled={busy}>
      {busy ? texts.busy : action}
    </button>
  );
}

/** What is known of the servers; their names only for those who know what these are. */
export function Servers({ search, isTechnical }: { search: Search; isTechnical: boolean }) {
  const texts = useTexts();
  const text = () => {
    if (search.state === 'none') return '';
    if (search.state === 'searching') return texts.looking;
    if (search.state !== 'done') return texts.lookupFailed;
    const { imap, smtp } = search.found;
    if (!imap || !smtp) return texts.unknownServers;
    return isTechnical ? `Found: ${imap.host} for incoming and ${smtp.host} for outgoing mail.` : '';
  };
  return text() === '' ? null : (
    <p class="small quiet" role="status">
      {text()}
    </p>
  );
}

/** The way to the fields of the servers. */
export function TypeServers({ isClosed, go }: { isClosed: boolean; go: () => void }) {
  const texts = useTexts();
  return (
    <button type="button" class="button plain" onClick={go}>
      {isClosed ? texts.otherProvider : texts.more}
    </button>
  );
}

type Encryption = 'SSL' | 'STARTTLS' | 'NONE';

/** The port of each encryption. */
export const PORTS: Record<'imap' | 'smtp', Record<Encryption, number>> = {
  imap: { SSL: 993, STARTTLS: 143, NONE: 143 },
  smtp: { SSL: 465, STARTTLS: 587, NONE: 587 },
};

/** With another encryption, and its port in place of the usual one of the encryption before. */
function withEncryption(server: Server, encryption: string, ports: Record<string, number>): Server {
  const isUsual = server.port === ports[server.encryption.toUpperCase()];
  return { ...server, encryption, port: isUsual ? (ports[encryption] ?? server.port) : server.port };
}

interface ServerFieldsProps {
  name: string;
  ports: Record<Encryption, number>;
  server: Server;
  set: (server: Server) => void;
  onBlur?: () => void;
}

export function ServerFields({ name, ports, server, set, onBlur }: ServerFieldsProps) {
  const texts = useTexts();
  return (
    <fieldset class="stack-s">
      <legend>{name}</legend>
      <div class="servers">
        <TextField
          label={texts.server}
          dir="ltr"
          required
          value={server.host}
          set={(host) => set({ ...server, host: host.trim() })}
          {...(onBlur ? { onBlur } : {})}
        />
        <TextField
          label={texts.port}
          type="number"
          min={1}
          max={65535}
          required
          value={String(server.port)}
          set={(port) => set({ ...server, port: Number(port) })}
        />
        <SelectField
          label={texts.encryption}
          value={server.encryption.toUpperCase()}
          set={(encryption) => set(withEncryption(server, encryption, ports))}
          options={[
            { value: 'SSL', label: 'SSL/TLS' },
            { value: 'STARTTLS', label: 'STARTTLS' },
            { value: 'NONE', label: texts.none },
          ]}
        />
      </div>
    </fieldset>
  );
}

interface RefusalProps {
  error: unknown;
  found: Found | undefined;
  isTechnical: boolean;
}

/** Explains an error in plain words, with those of the server for whoever helps. */
export function Refusal({ error, found, isTechnical }: RefusalProps) {
  const texts = useTexts();
  if (error instanceof ServersUnknown) {
    return (
      <Notice tone="bad" title={texts.notFoundTitle}>
        {texts.unknownServers}
      </Notice>
    );
  }
  const { detail } = wordsOf(error);
  const type = error instanceof ApiFailure ? error.type : undefined;
  const meaning = type === undefined ? undefined : texts.failures[type];
  return (
    <Notice tone="bad" title={texts.failed}>
      <p>{meaning ?? texts.failedOther}</p>
      {type === 'errors/invalid_credentials' && <Advice found={found} />}
      {type !== '' && (
        <details class="small quiet" open={isTechnical}>
          <summary>{texts.details}</summary>
          <p lang="en" dir="ltr">
            {isTechnical && 'The server says: '}
            {detail}
          </p>
        </details>
      )}
    </Notice>
  );
}

/** What most often helps where a provider refuses a login. */
function Advice({ found }: { found: Found | undefined }) {
  const texts = useTexts();
  if (found?.password_login === 'app_password') return <p>{texts.tryAppPassword}</p>;
  return found?.password_login === 'password' && found.hint ? <p>{texts.tryImap}</p> : null;
}
