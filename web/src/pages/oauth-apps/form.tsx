import { useState } from 'preact/hooks';
import { BASE, type OAuthApp, type Schemas } from '../../api/client.ts';
import { DialogForm } from '../../ui/dialog.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';

export const PROVIDERS: Record<OAuthApp['provider'], { name: string; guide: string }> = {
  microsoft: { name: 'Microsoft', guide: 'oauth/microsoft' },
  google: { name: 'Google', guide: 'oauth/google' },
  yahoo: { name: 'Yahoo', guide: 'oauth/' },
  fastmail: { name: 'Fastmail', guide: 'oauth/' },
  custom: { name: 'Another provider', guide: 'oauth/' },
};

/** A link to the page of the documents that says how an app is registered at that provider. */
export function Guide({ provider }: { provider: OAuthApp['provider'] }) {
  const { name, guide } = PROVIDERS[provider];
  return (
    <a href={`${BASE}/docs/${guide}`} target="_blank" rel="noreferrer">
      Guide for {provider === 'custom' ? 'other providers' : name}
    </a>
  );
}

export type CreateFields = Schemas['CreateOAuthApp'];
export type ChangeFields = Schemas['UpdateOAuthApp'];

interface FormProps {
  title: string;
  action: string;
  busy: boolean;
  error: unknown;
  close: () => void;
}

/** The form for a new app. */
export function CreateAppForm({ submit, ...form }: FormProps & { submit: (fields: CreateFields) => void }) {
  const [provider, setProvider] = useState<OAuthApp['provider']>('microsoft');
  const common = useCommon();
  const [tenant, setTenant] = useState('');
  const [issuer, setIssuer] = useState('');
  const [hosts, setHosts] = useState('');
  const isCustom = provider === 'custom';
  const fields = (): CreateFields => ({
    provider,
    name: common.name.trim() || PROVIDERS[provider].name,
    client_id: common.clientId.trim(),
    ...(common.secret ? { client_secret: common.secret } : {}),
    ...(common.scope.trim() ? { scope: common.scope.trim() } : {}),
    ...(provider === 'microsoft' && tenant.trim() ? { tenant: tenant.trim() } : {}),
    ...(isCustom ? { issuer: issuer.trim(), hosts: wordsIn(hosts) } : {}),
  });
  return (
    <DialogForm {...form} incomplete={!common.clientId.trim()} submit={() => submit(fields())}>
      <SelectField
        label="Provider"
        value={provider}
        set={(value) => setProvider(value as OAuthApp['provider'])}
        options={Object.entries(PROVIDERS).map(([value, { name }]) => ({ value, label: name }))}
      />
      <p>
        <Guide provider={provider} />
      </p>
      {common.fields('Left out: a public client, which has none.')}
      {provider === 'microsoft' && (
        <TextField
          label="Tenant"
          maxLength={253}
          placeholder="common"
          help="Id or domain of the tenant; left out: any."
          value={tenant}
          set={setTenant}
        />
      )}
      {isCustom && (
        <>
          <TextField
            label="Issuer"
            type="url"
            required
            placeholder="https://"
            help="Its endpoints are read from its metadata."
            value={issuer}
            set={setIssuer}
          />
          <TextField
            label="Mail servers"
            required
            placeholder="imap.example.com smtp.example.com"
            help="Only these get its tokens."
            value={hosts}
            set={setHosts}
          />
        </>
      )}
    </DialogForm>
  );
}

/** The form that changes an app; what it leaves empty does not change. */
export function ChangeAppForm({
  app,
  submit,
  ...form
}: FormProps & { app: OAuthApp; submit: (fields: ChangeFields) => void }) {
  const common = useCommon({ name: app.name, clientId: app.client_id, scope: app.scope });
  const [hosts, setHosts] = useState(app.hosts.join(' '));
  const fields = (): ChangeFields => ({
    name: common.name.trim(),
    client_id: common.clientId.trim(),
    scope: common.scope.trim(),
    hosts: wordsIn(hosts),
    ...(common.secret ? { client_secret: common.secret } : {}),
  });
  return (
    <DialogForm {...form} submit={() => submit(fields())}>
      {common.fields(app.has_client_secret ? 'Left out: the present one stays.' : 'It has none.')}
      <TextField label="Mail servers" required help="Only these get its tokens." value={hosts} set={setHosts} />
    </DialogForm>
  );
}

/** What all apps have. */
function useCommon(before = { name: '', clientId: '', scope: '' }) {
  const [name, setName] = useState(before.name);
  const [clientId, setClientId] = useState(before.clientId);
  const [secret, setSecret] = useState('');
  const [scope, setScope] = useState(before.scope);
  const fields = (secretHelp: string) => (
    <>
      <TextField label="Name" maxLength={100} value={name} set={setName} />
      <TextField label="Client id" required maxLength={512} autoComplete="off" value={clientId} set={setClientId} />
      <TextField
        label="Client secret"
        type="password"
        maxLength={4096}
        autoComplete="off"
        help={secretHelp}
        value={secret}
        set={setSecret}
      />
      <TextField
        label="Scope"
        maxLength={2048}
        help={before.scope ? '' : 'Left out: what mail needs at this provider.'}
        value={scope}
        set={setScope}
      />
    </>
  );
  return { name, clientId, secret, scope, fields };
}

const wordsIn = (text: string) => text.split(/[\s,]+/).filter(Boolean);
