import type { Schemas } from '../../api/client.ts';
import { SelectField, TextField } from '../../ui/field.tsx';
import { given, isoOf, useParam } from '../../ui/query.ts';
import { RangeFields, useRange } from '../../ui/range.tsx';
import { EVENT_TYPES, isEventType } from '../event-types.ts';

const STATUSES = ['pending', 'delivered', 'failed', 'skipped'] as const;
const OUTCOMES = ['succeeded', 'failed'] as const;

/** All filters of the log, from the query of the page's URL. */
export function useFilters() {
  const [status, setStatus] = useParam('status');
  const [outcome, setOutcome] = useParam('outcome');
  const [endpoint, setEndpoint] = useParam('endpoint');
  const [type, setType] = useParam('type');
  const [account, setAccount] = useParam('account');
  const [email, setEmail] = useParam('email');
  const [event, setEvent] = useParam('event');
  const range = useRange();
  const query = given({
    status: STATUSES.find((one) => one === status),
    last_outcome: OUTCOMES.find((one) => one === outcome),
    endpoint_id: endpoint.trim(),
    event_type: isEventType(type) ? type : undefined,
    account_id: account.trim(),
    email_id: email.trim(),
    event_id: event.trim(),
    since: isoOf(range.since),
    until: isoOf(range.until),
  });
  return {
    query,
    values: { status, outcome, endpoint, type, account, email, event },
    set: { setStatus, setOutcome, setEndpoint, setType, setAccount, setEmail, setEvent },
    range,
  };
}

export type DeliveryFilters = ReturnType<typeof useFilters>['query'];

/** Endpoints as options of a field; the chosen one is among them also when the list, which has an end, does not hold it. */
export function endpointOptions(endpoints: readonly Schemas['WebhookEndpoint'][], chosen: string) {
  const options = endpoints.map(({ id, url, description }) => ({ value: id, label: description ?? url }));
  const isListed = chosen === '' || options.some(({ value }) => value === chosen);
  return isListed ? options : [...options, { value: chosen, label: chosen }];
}

export function Filters({
  values,
  set,
  range,
  endpoints,
}: Omit<ReturnType<typeof useFilters>, 'query'> & { endpoints: Schemas['WebhookEndpoint'][] }) {
  return (
    <div class="filters" role="search">
      <SelectField
        label="State"
        value={values.status}
        set={set.setStatus}
        options={[{ value: '', label: 'All states' }, ...STATUSES]}
      />
      <SelectField
        label="Last attempt"
        value={values.outcome}
        set={set.setOutcome}
        options={[{ value: '', label: 'Any outcome' }, ...OUTCOMES]}
      />
      <SelectField
        label="Endpoint"
        value={values.endpoint}
        set={set.setEndpoint}
        options={[{ value: '', label: 'All endpoints' }, ...endpointOptions(endpoints, values.endpoint)]}
      />
      <SelectField
        label="Event"
        value={values.type}
        set={set.setType}
        options={[{ value: '', label: 'All events' }, ...EVENT_TYPES.map((value) => ({ value, label: value }))]}
      />
      <TextField label="Mailbox" placeholder="acc_…" value={values.account} set={set.setAccount} />
      <TextField label="Email" placeholder="email_…" value={values.email} set={set.setEmail} />
      <TextField label="Event id" placeholder="evt_…" value={values.event} set={set.setEvent} />
      <RangeFields range={range} />
    </div>
  );
}
