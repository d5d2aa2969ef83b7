import { useContext, useId, useState } from 'preact/hooks';
import { BASE } from '../api/client.ts';
import { Choice } from '../ui/choice.tsx';
import { CopyButton } from '../ui/copy.tsx';
import { SelectField, TextField } from '../ui/field.tsx';
import { Badge } from '../ui/parts.tsx';
import { type Call, type Parameter, shapeOf } from './document.ts';
import { NamedSchemas } from './fields.tsx';
import { LANGUAGES, sampleOf } from './samples.ts';

/** Characters of a response that are shown. */
const MOST_SHOWN = 200_000;

interface Outcome {
  status: number;
  ms: number;
  text: string;
  /** of a response that is no JSON */
  file?: { url: string; name: string };
}

/** A form that makes the call, with the call as code. `apiKey` empty: with the session of the dashboard. */
export function TryIt({ call, apiKey }: { call: Call; apiKey: string }) {
  const { parameters = [], requestBody } = call;
  const json = requestBody?.content['application/json'];
  const [values, setValues] = useState<Record<string, string>>({});
  const [body, setBody] = useState(() => (json ? JSON.stringify(json.example ?? {}, null, 2) : ''));
  const [language, setLanguage] = useState<string>(LANGUAGES[0]);
  const [outcome, setOutcome] = useState<Outcome>();
  const [isBusy, setBusy] = useState(false);
  const request = requestOf(call, values, body);
  const isStream = Object.values(call.responses).some(({ content = {} }) => 'text/event-stream' in content);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setOutcome(await outcomeOf(request, apiKey));
    setBusy(false);
  };
  const sample = sampleOf(language, request);
  return (
    <div class="stack">
      <form class="stack" onSubmit={(event) => void send(event)}>
        {parameters.map((parameter) => (
          <ParameterField
            key={parameter.name}
            parameter={parameter}
            value={values[parameter.name] ?? ''}
            set={(value) => setValues({ ...values, [parameter.name]: value })}
          />
        ))}
        {json && <BodyField value={body} set={setBody} />}
        {isStream ? (
          <p class="small quiet">This response does not end: make the call from a program.</p>
        ) : (
          <div class="row">
            <button type="submit" class="button main-action" disabled={isBusy}>
              {isBusy ? 'Sending…' : 'Send'}
            </button>
            {call.method !== 'get' && <span class="small quiet">The call is made on this installation.</span>}
          </div>
        )}
      </form>
      {outcome && <Result outcome={outcome} />}
      <div class="row">
        <Choice
          label="Language"
          options={LANGUAGES.map((each) => ({ value: each, label: each }))}
          value={language}
          set={setLanguage}
        />
        <CopyButton value={sample} label="Code" />
      </div>
      <pre tabIndex={0} aria-label="The call as code">
        {sample}
      </pre>
    </div>
  );
}

interface ValueProps {
  value: string;
  set: (value: string) => void;
}

/** Empty: the parameter is not sent. */
function ParameterField({ parameter, value, set }: ValueProps & { parameter: Parameter }) {
  const { name, in: place, required = false, schema } = parameter;
  const { label: type, values } = shapeOf(schema, useContext(NamedSchemas));
  const label = `${name} (${place})`;
  const choices = type === 'boolean' ? ['true', 'false'] : values.map(String);
  if (choices.length > 0 && !required) {
    const options = [{ value: '', label: 'not sent' }, ...choices.map((each) => ({ value: each, label: each }))];
    return <SelectField label={label} value={value} set={set} options={options} />;
  }
  return <TextField label={label} value={value} set={set} required={required} spellcheck={false} autoComplete="off" />;
}

function BodyField({ value, set }: ValueProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>Body</label>
      <textarea
        id={id}
        class="input mono"
        rows={Math.min(14, value.split('\n').length + 1)}
        spellcheck={false}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </div>
  );
}

function Result({ outcome: { status, ms, text, file } }: { outcome: Outcome }) {
  return (
    <div class="stack-s result" role="status">
      <div class="row">
        <Badge tone={status >= 200 && status < 300 ? 'good' : 'bad'}>{status === 0 ? 'No response' : status}</Badge>
        <span class="small quiet">{ms} ms</span>
        {text !== '' && <CopyButton value={text} label="Response" />}
        {file && (
          <a class="button small" href={file.url} download={file.name}>
            Download
          </a>
        )}
      </div>
      {text !== '' && (
        <pre tabIndex={0} aria-label="Response">
          {text.slice(0, MOST_SHOWN)}
        </pre>
      )}
    </div>
  );
}

function requestOf({ method, path, parameters = [] }: Call, values: Record<string, string>, body: string) {
  const given = parameters.filter(({ name }) => (values[name] ?? '') !== '');
  const query = new URLSearchParams();
  const headers: Record<string, string> = {};
  let filled = path;
  for (const { name, in: place } of given) {
    const value = values[name] ?? '';
    if (place === 'path') filled = filled.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === 'query') query.set(name, value);
    else headers[name] = value;
  }
  return {
    method: method.toUpperCase(),
    url: `${BASE}${filled}${query.size > 0 ? `?${query.toString()}` : ''}`,
    headers,
    body,
  };
}

async function outcomeOf(
  { method, url, headers, body }: ReturnType<typeof requestOf>,
  apiKey: string,
): Promise<Outcome> {
  const began = performance.now();
  const ended = (rest: Omit<Outcome, 'ms'>) => ({ ...rest, ms: Math.round(performance.now() - began) });
  try {
    const response = await fetch(url, {
      method,
      // a typed key makes the call, not the session beside it
      credentials: apiKey === '' ? 'same-origin' : 'omit',
      headers: {
        ...headers,
        ...(apiKey === '' ? {} : { 'X-API-KEY': apiKey }),
        ...(body === '' ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === '' ? {} : { body }),
    });
    const { status } = response;
    const type = response.headers.get('Content-Type') ?? '';
    if (/json/.test(type)) return ended({ status, text: JSON.stringify(await response.json(), null, 2) });
    const bytes = await response.blob();
    if (bytes.size === 0) return ended({ status, text: '' });
    const text = /^(text|message)\//.test(type) ? await bytes.text() : `${bytes.size} bytes of ${type}`;
    return ended({ status, text, file: { url: URL.createObjectURL(bytes), name: nameOf(response) } });
  } catch (error) {
    return ended({ status: 0, text: String(error) });
  }
}

function nameOf({ headers }: Response): string {
  const [, encoded] = /filename\*=UTF-8''([^;]+)/i.exec(headers.get('Content-Disposition') ?? '') ?? [];
  return encoded === undefined ? 'response' : decodeURIComponent(encoded);
}
