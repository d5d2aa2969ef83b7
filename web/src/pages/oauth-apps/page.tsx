import { useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { Allowed, useMay } from '../../access/may.tsx';
import { api, type OAuthApp, type Schemas, take } from '../../api/client.ts';
import { useOnce } from '../../api/once.ts';
import { Confirm, Dialog } from '../../ui/dialog.tsx';
import { Copyable, Empty, Listed, Notice, Page, Pager, Problem, State, Time } from '../../ui/parts.tsx';
import { useOffset } from '../../ui/query.ts';
import { useShown } from '../../ui/shown.ts';
import { ChangeAppForm, CreateAppForm, type ChangeFields, type CreateFields, Guide, PROVIDERS } from './form.tsx';

const SIZE = 50;
const APPS = ['oauth-apps'];

type Shown = { kind: 'create' } | { kind: 'set-up' | 'change' | 'verify' | 'delete'; app: OAuthApp };

/** The clients that the operator registered at providers of OAuth 2.0. */
export function AppsPage() {
  const [offset, setOffset] = useOffset();
  const { shown, show, next, close } = useShown<Shown>();
  const query = { offset, limit: SIZE };
  const list = useQuery({
    queryKey: [...APPS, query],
    queryFn: () => take(api.GET('/api/v1/oauth/apps', { params: { query } })),
    refetchInterval: 10_000,
  });
  const create = (
    <Allowed to="manage">
      <button type="button" class="button main-action" onClick={() => show({ kind: 'create' })}>
        Create an app
      </button>
    </Allowed>
  );
  return (
    <Page
      title="OAuth apps"
      intro="What you registered at Microsoft, Google and other providers, so that mailboxes connect without a password."
      up={{ href: '/mailboxes', label: 'Mailboxes' }}
      actions={create}
    >
      <section class="card" aria-label="OAuth apps">
        <Listed
          list={list}
          empty={
            <Empty title="No OAuth apps yet" action={create}>
              Microsoft accepts no passwords over IMAP. Register an app there, and owners sign in on its page.
            </Empty>
          }
        >
          {(apps) => <Table apps={apps} show={(kind, app) => show({ kind, app })} />}
        </Listed>
        <Pager list={list} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {shown?.kind === 'create' && <Create created={(app) => next({ kind: 'set-up', app })} close={close} />}
      {shown?.kind === 'set-up' && <SetUp app={shown.app} close={close} />}
      {shown?.kind === 'change' && <Change app={shown.app} close={close} />}
      {shown?.kind === 'verify' && <Verify app={shown.app} close={close} />}
      {shown?.kind === 'delete' && <Delete app={shown.app} close={close} />}
    </Page>
  );
}

const ACTIONS = [
  ['set-up', 'Set up'],
  ['verify', 'Verify'],
  ['change', 'Change'],
  ['delete', 'Delete'],
] as const;

function Table({ apps, show }: { apps: OAuthApp[]; show: (kind: (typeof ACTIONS)[number][0], app: OAuthApp) => void }) {
  const may = useMay();
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">App</th>
            <th scope="col">State</th>
            <th scope="col">Provider</th>
            <th scope="col">Client secret</th>
            <th scope="col">Changed</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {apps.map((app) => (
            <tr key={app.id}>
              <td>
                <span class="strong clip">{app.name}</span>
                <span class="sub nowrap">
                  <code title={app.client_id}>{app.client_id.slice(0, 24)}</code>
                </span>
              </td>
              <td class="first">
                <State of={app.status === 'ok' ? 'running' : 'failed'} label={app.status === 'ok' ? 'ok' : 'failing'} />
                {app.status_detail && <span class="sub">{app.status_detail}</span>}
              </td>
              <td data-label="Provider">
                {PROVIDERS[app.provider].name}
                {app.tenant && <span class="sub">{app.tenant}</span>}
              </td>
              <td data-label="Client secret">{app.has_client_secret ? 'stored' : 'none'}</td>
              <td data-label="Changed">
                <Time at={app.updated_at} />
              </td>
              <td>
                <div class="row">
                  {(may.manage ? ACTIONS : ACTIONS.slice(0, 1)).map(([kind, label]) => (
                    <button
                      key={kind}
                      type="button"
                      class={kind === 'delete' ? 'button small danger' : 'button small'}
                      onClick={() => show(kind, app)}
                    >
                      {label}
                      <span class="visually-hidden"> {app.name}</span>
                    </button>
                  ))}
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function useRefresh() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: APPS });
}

function Create({ created, close }: { created: (app: OAuthApp) => void; close: () => void }) {
  const refresh = useRefresh();
  const once = useOnce();
  const create = useMutation({
    mutationFn: (body: CreateFields) => once(body, (headers) => api.POST('/api/v1/oauth/apps', { headers, body })),
    onSuccess: async (app) => {
      created(app);
      await refresh();
    },
  });
  return (
    <CreateAppForm
      title="Create an OAuth app"
      action="Create it"
      busy={create.isPending}
      error={create.error}
      submit={create.mutate}
      close={close}
    />
  );
}

/** What the operator does at the provider. */
function SetUp({ app, close }: { app: OAuthApp; close: () => void }) {
  return (
    <Dialog title={`Set up ${app.name}`} close={close}>
      <p>Register this redirect address for the app at the provider, then verify the app.</p>
      <Copyable value={app.redirect_url} label="Redirect address" />
      <p>Its scope:</p>
      <Copyable value={app.scope} label="Scope" />
      <p>
        <Guide provider={app.provider} />
      </p>
      <div class="dialog-foot">
        <button type="button" class="button main-action" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

function Change({ app, close }: { app: OAuthApp; close: () => void }) {
  const refresh = useRefresh();
  const change = useMutation({
    mutationFn: (body: ChangeFields) =>
      take(api.PATCH('/api/v1/oauth/apps/{id}', { params: { path: { id: app.id } }, body })),
    onSuccess: async () => {
      close();
      await refresh();
    },
  });
  return (
    <ChangeAppForm
      app={app}
      title={`Change ${app.name}`}
      action="Save"
      busy={change.isPending}
      error={change.error}
      submit={change.mutate}
      close={close}
    />
  );
}

const SUBJECTS: Record<Schemas['OAuthAppVerification']['checks'][number]['subject'], string> = {
  client: 'Client id and secret',
  redirect: 'Redirect address',
  application_access: 'Access without a user',
  service_account: 'Service account',
};
const OUTCOMES = { ok: 'good', wrong: 'bad', unknown: 'idle' } as const;

/** Asks the provider when it opens. */
function Verify({ app, close }: { app: OAuthApp; close: () => void }) {
  const verified = useQuery({
    queryKey: ['oauth-app-verification', app.id, app.updated_at],
    queryFn: () => take(api.POST('/api/v1/oauth/apps/{id}/verify', { params: { path: { id: app.id } }, body: {} })),
    gcTime: 0,
    retry: false,
  });
  return (
    <Dialog title={`Verify ${app.name}`} close={close}>
      {verified.isPending && <p role="status">The provider is asked …</p>}
      <Problem error={verified.error} />
      {verified.data?.checks.map(({ subject, outcome, detail }) => (
        <Notice key={subject} tone={OUTCOMES[outcome]} title={`${SUBJECTS[subject]}: ${outcome}`}>
          {detail}
        </Notice>
      ))}
      <div class="dialog-foot">
        <button type="button" class="button main-action" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

function Delete({ app, close }: { app: OAuthApp; close: () => void }) {
  const refresh = useRefresh();
  const remove = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/oauth/apps/{id}', { params: { path: { id: app.id } } })),
    onSuccess: async () => {
      close();
      await refresh();
    },
  });
  return (
    <Confirm
      title="Delete this app?"
      action="Delete it"
      busy={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate()}
      close={close}
    >
      Its client secret is deleted here. An app that mailboxes log in with is not deleted.
    </Confirm>
  );
}
