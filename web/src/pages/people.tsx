import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/preact-query';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { Allowed, SESSION } from '../access/may.tsx';
import { api, type Person, type Session, take } from '../api/client.ts';
import { useOnce } from '../api/once.ts';
import { Confirm, DialogForm, ShowOnce } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { Badge, Empty, Listed, Notice, Page, Pager, Time } from '../ui/parts.tsx';
import { useOffset } from '../ui/query.ts';
import { useShown } from '../ui/shown.ts';

const SIZE = 50;
const PEOPLE = ['persons'];

type Shown =
  | { kind: 'invite' }
  | { kind: 'link'; name: string; url: string }
  | { kind: 'role' | 'reset' | 'remove'; person: Person };

/** People who sign in without a key: invited ones, and those of the identity provider. */
export function PeoplePage() {
  const [offset, setOffset] = useOffset();
  const { shown, show, next, close } = useShown<Shown>();
  const query = { offset, limit: SIZE };
  const list = useQuery({
    queryKey: [...PEOPLE, query],
    queryFn: () => take(api.GET('/api/v1/persons', { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
  const showLink = ({ name, url }: { name: string; url: string }) => next({ kind: 'link', name, url });
  const invite = (
    <Allowed to="administer">
      <button type="button" class="button main-action" onClick={() => show({ kind: 'invite' })}>
        Invite a person
      </button>
    </Allowed>
  );
  return (
    <Page
      title="People"
      intro="Who signs in to the dashboard without a key, and what each of them may do."
      up={{ href: '/keys', label: 'Keys' }}
      actions={invite}
    >
      <section class="card" aria-label="People">
        <Listed
          list={list}
          empty={
            <Empty title="No people yet">
              Invited people sign in with a password, others at your identity provider once that is set. Both are listed
              here.
            </Empty>
          }
        >
          {(people) => <Table people={people} show={show} />}
        </Listed>
        <Pager list={list} offset={[offset, setOffset]} size={SIZE} />
      </section>
      {shown?.kind === 'invite' && <Invite done={showLink} close={close} />}
      {shown?.kind === 'link' && (
        <ShowOnce title={`The link for ${shown.name}`} value={shown.url} label="Link" close={close}>
          Pass it on to {shown.name}, who chooses a password there. It is shown this once, works once, and ends after 7
          days.
        </ShowOnce>
      )}
      {shown?.kind === 'role' && <ChangeRole person={shown.person} close={close} />}
      {shown?.kind === 'reset' && <Reset person={shown.person} done={showLink} close={close} />}
      {shown?.kind === 'remove' && <Remove person={shown.person} close={close} />}
    </Page>
  );
}

const ROLES: { value: Person['role']; label: string }[] = [
  { value: 'admin', label: 'Admin: everything' },
  { value: 'operator', label: 'Operator: everything but keys and people' },
  { value: 'viewer', label: 'Viewer: reading only' },
];
const isRole = (text: string): text is Person['role'] => ROLES.some(({ value }) => value === text);

function RoleField({ value, set }: { value: Person['role']; set: (role: Person['role']) => void }) {
  return <SelectField label="Role" value={value} set={(role) => isRole(role) && set(role)} options={ROLES} />;
}

function Table({ people, show }: { people: Person[]; show: (shown: Shown) => void }) {
  return (
    <div class="table-wrap cards" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Role</th>
            <th scope="col">Signs in</th>
            <th scope="col">Last sign-in</th>
            <th scope="col">Added</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {people.map((person) => (
            <tr key={person.id}>
              <td>
                <Link href={`/audit?person=${person.id}`} class="strong" title="What was done by this person">
                  <span class="clip" dir="auto">
                    {person.name}
                  </span>
                </Link>
                {person.email !== null && <span class="sub clip">{person.email}</span>}
              </td>
              <td class="first">
                <Badge tone={person.role === 'viewer' ? 'idle' : 'good'}>{person.role}</Badge>
              </td>
              <td data-label="Signs in">
                <HowSignsIn person={person} />
              </td>
              <td data-label="Last sign-in">
                <Time at={person.last_signed_in_at} none="not yet" />
              </td>
              <td data-label="Added">
                <Time at={person.created_at} />
              </td>
              <td>
                <Allowed to="administer">
                  <Actions person={person} show={show} />
                </Allowed>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function HowSignsIn({ person: { source, invitation_expires_at: until } }: { person: Person }) {
  if (source === 'identity_provider') return <>at the identity provider</>;
  if (until === null) return <>with a password</>;
  if (new Date(until).getTime() <= Date.now()) return <Badge tone="bad">link expired</Badge>;
  return (
    <div>
      <Badge tone="warn">invited</Badge>
      <span class="sub">
        the link ends <Time at={until} />
      </span>
    </div>
  );
}

function Actions({ person, show }: { person: Person; show: (shown: Shown) => void }) {
  const name = <span class="visually-hidden"> of {person.name}</span>;
  const isOwn = useIsOwn(person);
  return (
    <div class="row">
      {person.source === 'invitation' && (
        <>
          <button type="button" class="button small" onClick={() => show({ kind: 'role', person })}>
            Change role{name}
          </button>
          {/* it would end the session that shows the link */}
          {!isOwn && (
            <button type="button" class="button small" onClick={() => show({ kind: 'reset', person })}>
              Reset password{name}
            </button>
          )}
        </>
      )}
      <button type="button" class="button small danger" onClick={() => show({ kind: 'remove', person })}>
        Remove<span class="visually-hidden"> {person.name}</span>
      </button>
    </div>
  );
}

const useIsOwn = ({ id }: Person) => useQueryClient().getQueryData<Session>(SESSION)?.person?.id === id;

function useRefresh() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: PEOPLE });
}

interface Linked {
  done: (made: { name: string; url: string }) => void;
  close: () => void;
}

function Invite({ done, close }: Linked) {
  const refresh = useRefresh();
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Person['role']>('viewer');
  const once = useOnce();
  const invite = useMutation({
    mutationFn: () => {
      const body = { name: name.trim(), email: email.trim(), role };
      return once(body, (headers) => api.POST('/api/v1/persons', { headers, body }));
    },
    onSuccess: async (person) => {
      done(person);
      await refresh();
    },
  });
  return (
    <DialogForm
      title="Invite a person"
      action="Make the link"
      busy={invite.isPending}
      showsOnce
      error={invite.error}
      submit={() => invite.mutate()}
      close={close}
    >
      <TextField label="Name" required maxLength={100} value={name} set={setName} />
      <TextField
        label="Email address"
        type="email"
        required
        maxLength={320}
        help="The person signs in with it. No mail is sent: you pass the link on."
        value={email}
        set={setEmail}
      />
      <RoleField value={role} set={setRole} />
    </DialogForm>
  );
}

function ChangeRole({ person, close }: { person: Person; close: () => void }) {
  const refresh = useRefresh();
  const isOwn = useIsOwn(person);
  const [role, setRole] = useState(person.role);
  const change = useMutation({
    mutationFn: () => take(api.PATCH('/api/v1/persons/{id}', { params: { path: { id: person.id } }, body: { role } })),
    onSuccess: async () => {
      close();
      await refresh();
    },
  });
  return (
    <DialogForm
      title={`Change the role of ${person.name}`}
      action="Change it"
      incomplete={role === person.role}
      busy={change.isPending}
      error={change.error}
      submit={() => change.mutate()}
      close={close}
    >
      <RoleField value={role} set={setRole} />
      {isOwn ? (
        <Notice tone="warn" title="This is you">
          You will be signed out, and sign in again with the new role.
        </Notice>
      ) : (
        <p class="small quiet">{person.name} is signed out, and signs in again with the new role.</p>
      )}
    </DialogForm>
  );
}

function Reset({ person, done, close }: { person: Person } & Linked) {
  const refresh = useRefresh();
  const reset = useMutation({
    mutationFn: () => take(api.POST('/api/v1/persons/{id}/reset-password', { params: { path: { id: person.id } } })),
    onSuccess: async (made) => {
      done(made);
      await refresh();
    },
  });
  return (
    <Confirm
      title={`Reset the password of ${person.name}?`}
      action="Reset it"
      busy={reset.isPending}
      showsOnce
      error={reset.error}
      confirm={() => reset.mutate()}
      close={close}
    >
      <p>The password, an earlier link and all sessions end immediately. You get a new link to pass on.</p>
    </Confirm>
  );
}

function Remove({ person, close }: { person: Person; close: () => void }) {
  const refresh = useRefresh();
  const isOwn = useIsOwn(person);
  const remove = useMutation({
    mutationFn: () => take(api.DELETE('/api/v1/persons/{id}', { params: { path: { id: person.id } } })),
    onSuccess: async () => {
      close();
      await refresh();
    },
  });
  return (
    <Confirm
      title={`Remove ${person.name}?`}
      action="Remove"
      busy={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate()}
      close={close}
    >
      {isOwn && (
        <Notice tone="warn" title="This is you">
          You will be signed out, and come back with a key or another invitation only.
        </Notice>
      )}
      <p>All sessions and connect links of this person end immediately. The audit log still names them.</p>
      {person.source === 'identity_provider' && (
        <p>Whoever has a role at the identity provider can sign in again: remove them there first.</p>
      )}
    </Confirm>
  );
}
