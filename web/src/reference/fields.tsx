import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { boundsOf, type Parameter, type Schema, type Schemas, type Shape, shapeOf } from './document.ts';
import { Fold, Text } from './text.tsx';

/** The named schemas of the document. */
export const NamedSchemas = createContext<Schemas>({});

/** The fields of an object, or what a value is. `isRequest`: says which are required; else, which may be absent. */
export function Fields({ schema, isRequest }: { schema: Schema; isRequest: boolean }) {
  const { objects, label, values, description } = shapeOf(schema, useContext(NamedSchemas));
  const [object] = objects;
  if (objects.length > 1) return <Objects objects={objects} isRequest={isRequest} />;
  if (!object) {
    return (
      <p class="small">
        {[label, boundsOf(schema)].filter(Boolean).join(' · ')} <Text of={description} /> <Values of={values} />
      </p>
    );
  }
  const { properties = {}, required = [] } = object.schema;
  return (
    <ul class="fields">
      {Object.entries(properties).map(([name, property]) => {
        const isRequired = required.includes(name);
        const mark = isRequest ? (isRequired ? 'required' : '') : isRequired ? '' : 'may be absent';
        return <Field key={name} name={name} schema={property} mark={mark} isRequest={isRequest} />;
      })}
    </ul>
  );
}

/** The objects of a union, each to open. */
function Objects({ objects, isRequest }: { objects: Shape['objects']; isRequest: boolean }) {
  return (
    <>
      {objects.map(({ name, schema }) => (
        <Fold key={name} title={`Fields of ${name}`}>
          {() => <Fields schema={schema} isRequest={isRequest} />}
        </Fold>
      ))}
    </>
  );
}

function Values({ of }: { of: unknown[] }) {
  if (of.length === 0) return null;
  const texts = of.map((value) => `\`${String(value)}\``).join(', ');
  return (
    <span class="quiet">
      {of.length > 1 && 'One of '}
      <Text of={texts} />
    </span>
  );
}

export function Parameters({ of }: { of: Parameter[] }) {
  return (
    <ul class="fields">
      {of.map(({ name, in: place, required = false, description, schema }) => (
        <Field
          key={name}
          name={name}
          schema={description === undefined ? schema : { ...schema, description }}
          mark={[place, ...(required ? ['required'] : [])].join(', ')}
          isRequest
        />
      ))}
    </ul>
  );
}

interface FieldProps {
  name: string;
  schema: Schema;
  mark: string;
  isRequest: boolean;
}

function Field({ name, schema, mark, isRequest }: FieldProps) {
  const { label, objects, values, description } = shapeOf(schema, useContext(NamedSchemas));
  const bounds = boundsOf(schema);
  return (
    <li>
      <div class="row">
        <code class="strong">{name}</code>
        <span class="quiet small">{[label, bounds, mark].filter(Boolean).join(' · ')}</span>
      </div>
      <p class="small">
        <Text of={schema.description ?? description} />
      </p>
      {values.length > 0 && (
        <p class="small">
          <Values of={values} />
        </p>
      )}
      {objects.length > 0 && (
        <Fold title={`Fields of ${name}`}>{() => <Fields schema={schema} isRequest={isRequest} />}</Fold>
      )}
    </li>
  );
}
