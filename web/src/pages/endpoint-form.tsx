import { useQuery } from '@tanstack/preact-query';
import { useId, useState } from 'preact/hooks';
import { api, ApiFailure, type Endpoint, take } from '../api/client.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { EVENT_TYPES, type EventType } from './event-types.ts';
import { type Picked, PickMailboxes } from './pick-mailboxes.tsx';

/** The fields of an endpoint that people set. */
export interface EndpointFields {
  url: string;
  description: string | null;
  trigger_events: EventType[];
  account_ids: string[];
  headers: { name: string; value: string }[];
}

const NEW: EndpointFields = {
  url: '',
  description: null,
  trigger_events: [...EVENT_TYPES],
  account_ids: [],
  headers: [],
};

/** A form for a new endpoint, or for changing one; `changed`: the fields that differ from those it began with. */
export function EndpointForm({
  endpoint,
  submit,
  ...form
}: {
  endpoint?: Endpoint;
  title: string;
  action: string;
  busy: boolean;
  error: unknown;
  submit: (fields: EndpointFields, changed: Partial<EndpointFields>) => void;
  close: () => void;
}) {
  // as it was opened: others may change the endpoint before it is submitted
  const [before] = useState<Before>(endpoint ?? NEW);
  const [url, setUrl] = useState(before.url);
  const [description, setDescription] = useState(before.description ?? '');
  const [types, setTypes] = useState<readonly string[]>(before.trigger_events);
  const [scope, setScope] = useState(before.account_ids.length > 0 ? 'some' : 'all');
  const [picked, setPicked] = useState<Picked[]>(before.account_ids.map((id) => ({ id, name: id })));
  const [headers, setHeaders] = useState(before.headers.map(({ name, value }) => `${name}: ${value}`).join('\n'));
  const fields = (): EndpointFields => ({
    url: url.trim(),
    description: description.trim() || null,
    // the others are of a newer server, which knows them
    trigger_events: typesOf(before).filter((type) => types.includes(type)) as EventType[],
    account_ids: scope === 'all' ? [] : picked.map(({ id }) => id),
    headers: readHeaders(headers),
  });
  const [opened] = useState(fields);
  return (
    <DialogForm
      {...form}
      incomplete={types.length === 0 || (scope === 'some' && picked.length === 0)}
      submit={() => submit(fields(), differing(fields(), opened))}
    >
      <TextField label="URL" type="url" required placeholder="https://example.com/webhooks" value={url} set={setUrl} />
      <TextField label="Description" value={description} set={setDescription} maxLength={255} />
      <TypeChoice all={typesOf(before)} chosen={types} choose={setTypes} />
      <SelectField
        label="Mailboxes"
        value={scope}
        set={setScope}
        options={[
          { value: 'all', label: 'All, also later ones' },
          { value: 'some', label: 'Some' },
        ]}
      />
      {scope === 'some' && <Mailboxes picked={picked} pick={setPicked} />}
      <Headers value={headers} set={setHeaders} />
    </DialogForm>
  );
}

type Before = Omit<EndpointFields, 'trigger_events'> & { trigger_events: string[] };

/** The types that can be chosen: those of this page, and those that the endpoint has besides. */
const typesOf = ({ trigger_events: has }: Before): string[] => [...new Set<string>([...EVENT_TYPES, ...has])];

function differing(fields: EndpointFields, from: EndpointFields): Partial<EndpointFields> {
  const names = Object.keys(fields) as (keyof EndpointFields)[];
  const changed = names.filter((name) => JSON.stringify(fields[name]) !== JSON.stringify(from[name]));
  return Object.fromEntries(changed.map((name) => [name, fields[name]]));
}

/** The name of a mailbox; undefined: it is not known now. */
async function nameOfMailbox(id: string): Promise<string | undefined> {
  try {
    return (await take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } }))).name;
  } catch (failure) {
    const isRemoved = failure instanceof ApiFailure && failure.status === 404;
    return isRemoved ? `Removed mailbox …${id.slice(-6)}` : undefined;
  }
}

/** The mailboxes of an endpoint are known by their ids: this shows their names. */
function Mailboxes({ picked, pick }: { picked: Picked[]; pick: (picked: Picked[]) => void }) {
  const unnamed = picked.filter(({ id, name }) => id === name);
  const names = useQuery({
    queryKey: ['account-names', unnamed.map(({ id }) => id)],
    queryFn: async () =>
      new Map(await Promise.all(unnamed.map(async ({ id }) => [id, await nameOfMailbox(id)] as const))),
    enabled: unnamed.length > 0,
  });
  const nameOf = ({ id, name }: Picked) => names.data?.get(id) ?? name;
  return <PickMailboxes picked={picked.map((one) => ({ id: one.id, name: nameOf(one) }))} pick={pick} />;
}

function Headers({ value, set }: { value: string; set: (value: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>Headers</label>
      <textarea
        id={id}
        class="input"
        rows={2}
        placeholder="Authorization: Bearer …"
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
        aria-describedby={`${id}-help`}
      />
      <span class="help" id={`${id}-help`}>
        One per line. They are sent with every call.
      </span>
    </div>
  );
}

/** `name: value` lines. A line without a colon is a name without a value, which the API refuses by its field. */
function readHeaders(text: string): EndpointFields['headers'] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [name = '', ...value] = line.split(':');
      return { name: name.trim(), value: value.join(':').trim() };
    });
}

function TypeChoice({
  all,
  chosen,
  choose,
}: {
  all: readonly string[];
  chosen: readonly string[];
  choose: (types: readonly string[]) => void;
}) {
  const toggle = (type: string) =>
    choose(chosen.includes(type) ? chosen.filter((one) => one !== type) : [...chosen, type]);
  const isAll = chosen.length === all.length;
  return (
    <fieldset class="stack-s">
      <legend>Events</legend>
      <div class="checks">
        <label class="check">
          <input type="checkbox" checked={isAll} onChange={() => choose(isAll ? [] : all)} />
          <strong>all</strong>
        </label>
        {all.map((type) => (
          <label class="check" key={type}>
            <input type="checkbox" checked={chosen.includes(type)} onChange={() => toggle(type)} />
            {type}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
