import { useQuery } from '@tanstack/preact-query';
import { useId, useState } from 'preact/hooks';
import { api, type Endpoint, take } from '../api/client.ts';
import { DialogForm } from '../ui/dialog.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { EVENT_TYPES, type EventType, isEventType } from './event-types.ts';
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

/** A form for a new endpoint, or for changing one. */
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
  submit: (fields: EndpointFields) => void;
  close: () => void;
}) {
  const before: Omit<EndpointFields, 'trigger_events'> & { trigger_events: string[] } = endpoint ?? NEW;
  const [url, setUrl] = useState(before.url);
  const [description, setDescription] = useState(before.description ?? '');
  const [types, setTypes] = useState<readonly EventType[]>(before.trigger_events.filter(isEventType));
  const [scope, setScope] = useState(before.account_ids.length > 0 ? 'some' : 'all');
  const [picked, setPicked] = useState<Picked[]>(before.account_ids.map((id) => ({ id, name: id })));
  const [headers, setHeaders] = useState(before.headers.map(({ name, value }) => `${name}: ${value}`).join('\n'));
  const fields = (): EndpointFields => ({
    url: url.trim(),
    description: description.trim() || null,
    trigger_events: [...types],
    account_ids: scope === 'all' ? [] : picked.map(({ id }) => id),
    headers: readHeaders(headers),
  });
  return (
    <DialogForm
      {...form}
      incomplete={types.length === 0 || (scope === 'some' && picked.length === 0)}
      submit={() => submit(fields())}
    >
      <TextField label="URL" type="url" required placeholder="https://example.com/webhooks" value={url} set={setUrl} />
      <TextField label="Description" value={description} set={setDescription} maxLength={255} />
      <TypeChoice chosen={types} choose={setTypes} />
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

/** The mailboxes of an endpoint are known by their ids: this shows their names. */
function Mailboxes({ picked, pick }: { picked: Picked[]; pick: (picked: Picked[]) => void }) {
  const unnamed = picked.filter(({ id, name }) => id === name);
  const names = useQuery({
    queryKey: ['account-names', unnamed.map(({ id }) => id)],
    queryFn: () =>
      Promise.all(
        unnamed.map(({ id }) =>
          take(api.GET('/api/v1/accounts/{id}', { params: { path: { id } } })).catch(() => undefined),
        ),
      ),
    enabled: unnamed.length > 0,
  });
  const nameOf = ({ id, name }: Picked) => names.data?.find((one) => one?.id === id)?.name ?? name;
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
  chosen,
  choose,
}: {
  chosen: readonly EventType[];
  choose: (types: readonly EventType[]) => void;
}) {
  const toggle = (type: EventType) =>
    choose(chosen.includes(type) ? chosen.filter((one) => one !== type) : [...chosen, type]);
  const all = chosen.length === EVENT_TYPES.length;
  return (
    <fieldset class="stack-s">
      <legend>Events</legend>
      <div class="checks">
        <label class="check">
          <input type="checkbox" checked={all} onChange={() => choose(all ? [] : EVENT_TYPES)} />
          <strong>all</strong>
        </label>
        {EVENT_TYPES.map((type) => (
          <label class="check" key={type}>
            <input type="checkbox" checked={chosen.includes(type)} onChange={() => toggle(type)} />
            {type}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
