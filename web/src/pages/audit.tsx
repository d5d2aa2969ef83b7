import { keepPreviousData, useQuery } from '@tanstack/preact-query';
import { Link } from 'wouter-preact';
import { api, type AuditRecord, take } from '../api/client.ts';
import { useDebounced } from '../ui/debounced.ts';
import { SelectField, TextField } from '../ui/field.tsx';
import { exactDate, momentOf } from '../ui/format.ts';
import { Badge, Empty, Listed, Page } from '../ui/parts.tsx';
import { given, isoOf, useCursor, useParam } from '../ui/query.ts';
import { RangeFields, useRange } from '../ui/range.tsx';

const SIZE = 50;

/** The values of AUDIT_ACTIONS of the API; the type fails when one is missing. */
const ACTIONS = {
  'api_key.create': 'Create a key',
  'api_key.revoke': 'Revoke a key',
  'session.create': 'Sign in',
  'person.invite': 'Invite a person',
  'person.accept': 'Choose a password by a link',
  'person.update': 'Change the role of a person',
  'person.reset': 'Reset a password',
  'person.change_password': 'Change the own password',
  'person.remove': 'Remove a person',
  'auth_link.create': 'Create a connect link',
  'auth_link.revoke': 'Revoke a connect link',
  'account.connect': 'Connect a mailbox',
  'account.reconnect': 'Connect a mailbox again',
  'account.update': 'Change a mailbox',
  'account.remove': 'Remove a mailbox',
  'account.reparse': 'Parse stored mail again',
  'import.create': 'Import older mail',
  'import.pause': 'Pause an import',
  'import.continue': 'Continue an import',
  'import.cancel': 'Cancel an import',
  'webhook_endpoint.create': 'Create an endpoint',
  'oauth_app.create': 'Create an OAuth app',
  'oauth_app.update': 'Change an OAuth app',
  'oauth_app.delete': 'Delete an OAuth app',
  'device_sign_in.create': 'Create a sign-in on another device',
  'webhook_endpoint.update': 'Change an endpoint',
  'webhook_endpoint.delete': 'Delete an endpoint',
  'webhook_endpoint.rotate_secret': 'Rotate a secret',
  'webhook_endpoint.test': 'Test an endpoint',
  'delivery.retry': 'Retry a delivery',
  'replay.create': 'Begin a replay',
  'replay.cancel': 'Cancel a replay',
  'history.decode': 'Decode a history',
} satisfies Record<AuditRecord['action'], string>;
const isAction = (text: string): text is AuditRecord['action'] => text in ACTIONS;

const TONES = { done: 'good', refused: 'warn', failed: 'bad' } as const;

/** Page of an object, by the prefix of its id. */
const PAGES: Record<string, string> = { acc: '/mailboxes', we: '/endpoints', whc: '/deliveries', rpl: '/replays' };

/** Audit log of operations on keys, mailboxes and endpoints. */
export function AuditPage() {
  const [action, setAction] = useParam('action');
  const [key, setKey] = useParam('key');
  const [person, setPerson] = useParam('person');
  const [object, setObject] = useParam('object');
  const range = useRange();
  const [cursor, goTo] = useCursor();
  const filters = useDebounced(
    JSON.stringify(
      given({
        action: isAction(action) ? action : undefined,
        api_key_id: key.trim(),
        person_id: person.trim(),
        object_id: object.trim(),
        since: isoOf(range.since),
        until: isoOf(range.until),
      }),
    ),
  );
  const query = { ...(JSON.parse(filters) as object), ...given({ cursor, limit: SIZE }) };
  const list = useQuery({
    queryKey: ['audit', query],
    queryFn: () => take(api.GET('/api/v1/audit', { params: { query } })),
    placeholderData: keepPreviousData,
    // loaded records are immutable
    refetchInterval: cursor === '' ? 10_000 : false,
  });
  const names = useKeyNames();
  return (
    <Page title="Audit" intro="Who did what to keys, people, mailboxes and endpoints, also when it was refused.">
      <section class="card" aria-label="Audit log">
        <div class="filters" role="search">
          <SelectField
            label="Action"
            value={action}
            set={setAction}
            options={[
              { value: '', label: 'All actions' },
              ...Object.entries(ACTIONS).map(([value, label]) => ({ value, label })),
            ]}
          />
          <TextField label="Key" placeholder="pk_…" value={key} set={setKey} />
          <TextField label="Person" placeholder="per_…" value={person} set={setPerson} />
          <TextField label="Target" placeholder="acc_…, pk_…, we_…" value={object} set={setObject} />
          <RangeFields range={range} />
        </div>
        <Listed list={list} empty={<Nothing filtered={filters !== '{}'} />}>
          {(records) => <Table records={records} names={names} />}
        </Listed>
        {(cursor !== '' || list.data?.has_more) && (
          <nav class="pager" aria-label="Pages">
            <button type="button" class="button small" disabled={cursor === ''} onClick={() => goTo('')}>
              Newest
            </button>
            <button
              type="button"
              class="button small"
              disabled={!list.data?.cursor}
              onClick={() => goTo(list.data?.cursor ?? '')}
            >
              Older
            </button>
          </nav>
        )}
      </section>
    </Page>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No record fits">Take a filter away, or widen the time.</Empty>;
  return <Empty title="Nothing was done yet">Every change of a key, a mailbox or an endpoint is listed here.</Empty>;
}

/** Names of the keys; revoked keys show their ids. */
function useKeyNames(): ReadonlyMap<string, string> {
  const keys = useQuery({
    queryKey: ['api-keys', { limit: 250 }],
    queryFn: () => take(api.GET('/api/v1/api-keys', { params: { query: { limit: 250 } } })),
    staleTime: 30_000,
  });
  return new Map(keys.data?.data.map(({ id, name }) => [id, name]));
}

function Table({ records, names }: { records: AuditRecord[]; names: ReadonlyMap<string, string> }) {
  return (
    <div class="table-wrap cards dense" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            <th scope="col">Action</th>
            <th scope="col">Outcome</th>
            <th scope="col">When</th>
            <th scope="col">Target</th>
            <th scope="col">Who</th>
            <th scope="col">From</th>
          </tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <tr key={record.id}>
              <td class="strong nowrap">{ACTIONS[record.action]}</td>
              <td class="first">
                <Badge tone={TONES[record.outcome]}>
                  {record.outcome}
                  {record.outcome !== 'done' && ` ${record.status}`}
                </Badge>
              </td>
              <td data-label="When">
                <time dateTime={record.at} title={exactDate(record.at)} class="nowrap">
                  {momentOf(record.at)}
                </time>
              </td>
              <td data-label="Target">
                <ObjectLink id={record.object_id} name={record.object_name} names={names} />
              </td>
              <td data-label="Who">
                <ObjectLink id={record.person_id ?? record.api_key_id} name={record.actor} names={names} />
              </td>
              <td class="nowrap" data-label="From">
                {record.address}
                <span class="sub nowrap" title={`X-Request-Id ${record.request_id}`}>
                  <code>{record.request_id.slice(0, 12)}…</code>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Shows an object by its name or the end of its id, with a link if it has a page. */
function ObjectLink({
  id,
  name: then,
  names,
}: {
  id: string | null;
  /** its name at the time */
  name: string | null;
  names: ReadonlyMap<string, string>;
}) {
  if (id === null) return <span class="quiet">{then ?? '–'}</span>;
  const [prefix = ''] = id.split('_');
  const name = then ?? names.get(id) ?? `${prefix}_…${id.slice(-6)}`;
  const page = PAGES[prefix];
  const filter = prefix === 'per' ? 'person' : 'object';
  const to = page === undefined ? `/audit?${filter}=${id}` : `${page}/${id}`;
  return (
    <Link href={to} title={id}>
      <span class="clip" dir="auto">
        {name}
      </span>
    </Link>
  );
}
