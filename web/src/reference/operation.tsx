import type { Call, Content } from './document.ts';
import { Fields, Parameters } from './fields.tsx';
import { Fold, Text } from './text.tsx';
import { TryIt } from './try-it.tsx';

interface OperationProps {
  call: Call;
  isOpen: boolean;
  toggle: () => void;
  apiKey: string;
}

/** An operation as one line, with all about it once it is open. */
export function Operation({ call, isOpen, toggle, apiKey }: OperationProps) {
  const { method, path, summary, isEvent, operationId } = call;
  return (
    <section class="operation card" id={operationId}>
      <h3>
        <button type="button" aria-expanded={isOpen} onClick={toggle}>
          <span class="method" data-method={method}>
            {isEvent ? 'event' : method}
          </span>
          <code class="wrap">{path}</code>
          {!isEvent && <span class="quiet">{summary}</span>}
        </button>
      </h3>
      {isOpen && (
        <div class="card-body">
          <p>
            <Text of={call.description} />
          </p>
          <div class="grid-2">
            <Description call={call} />
            {isEvent ? <Example content={call.requestBody?.content} /> : <TryIt call={call} apiKey={apiKey} />}
          </div>
        </div>
      )}
    </section>
  );
}

function Description({ call: { parameters = [], requestBody, responses, isEvent } }: { call: Call }) {
  const body = requestBody?.content['application/json']?.schema;
  return (
    <div class="stack">
      {parameters.length > 0 && (
        <>
          <h4>{isEvent ? 'Headers' : 'Parameters'}</h4>
          <Parameters of={parameters} />
        </>
      )}
      {body && (
        <>
          <h4>Body</h4>
          <Fields schema={body} isRequest={!isEvent} />
        </>
      )}
      <h4>Responses</h4>
      <ul class="fields">
        {Object.entries(responses).map(([status, { description, content }]) => (
          <li key={status}>
            <p class="small">
              <code class="strong">{status}</code> <Text of={description} />
            </p>
            <Bodies content={content} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Bodies({ content = {} }: { content?: Content | undefined }) {
  return (
    <>
      {Object.entries(content).map(([type, { schema }]) => (
        <Fold key={type} title={type}>
          {() => (
            <>
              {schema && <Fields schema={schema} isRequest={false} />}
              <Example content={content} type={type} />
            </>
          )}
        </Fold>
      ))}
    </>
  );
}

function Example({ content = {}, type = 'application/json' }: { content?: Content | undefined; type?: string }) {
  const example = content[type]?.example;
  if (example === undefined) return null;
  return (
    <pre tabIndex={0} aria-label="Example">
      {JSON.stringify(example, null, 2)}
    </pre>
  );
}
