import type { FastifySerializerCompiler } from 'fastify/types/schema.js';
import type { TSchema } from 'typebox';

/*
 * Responses contain only the properties that their schema names. fast-json-stringify would also convert values (null to
 * ""), which would hide values that do not match their schema from the tests. Pages of emails are JSON text from Postgres
 * and bypass the serializer: their tests check them against the schema.
 */

type Filter = (value: unknown) => unknown;

/** Part of a JSON schema, as far as filtering needs it. */
interface Shape {
  properties?: Record<string, Shape>;
  items?: Shape;
  anyOf?: Shape[];
}

const filters = new WeakMap<TSchema, Filter>();

/** Compiles the serializer of a response: removes properties that its schema does not name, at every depth. */
export const compileSerializer: FastifySerializerCompiler<TSchema> = ({ schema }) => {
  const filter = filters.get(schema) ?? filterOf(schema) ?? ((value) => value);
  filters.set(schema, filter);
  return (value) => JSON.stringify(filter(value));
};

/** Creates a filter of the properties that a schema names; undefined when nothing needs filtering. Unions may have one object or array option. */
export function filterOf(schema: Shape): Filter | undefined {
  if (schema.anyOf) {
    const filter = schema.anyOf.map(filterOf).find((option) => option !== undefined);
    return filter && ((value) => (value === null ? null : filter(value)));
  }
  if (schema.items) {
    const filter = filterOf(schema.items);
    return filter && ((value) => (value as unknown[]).map(filter));
  }
  return schema.properties && pick(schema.properties);
}

function pick(properties: Record<string, Shape>): Filter {
  const fields = Object.entries(properties).map(([name, schema]) => ({ name, filter: filterOf(schema) }));
  return (value) => {
    const picked: Record<string, unknown> = {};
    for (const { name, filter } of fields) {
      const field = (value as Record<string, unknown>)[name];
      if (field !== undefined) picked[name] = filter ? filter(field) : field;
    }
    return picked;
  };
}
