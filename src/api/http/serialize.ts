import type { FastifySerializerCompiler } from 'fastify/types/schema.js';
import type { TSchema } from 'typebox';

/*
 * Responses go out as their schemas say: a property that the schema does not name is not sent. fast-json-stringify would
 * convert values too (null to ""), which would hide from the tests that a value does not match its schema. Pages of
 * emails are JSON text that Postgres has written, and pass no serializer: their tests check them against the schema.
 */

type Filter = (value: unknown) => unknown;

/** Part of a JSON schema, as far as filtering needs it. */
interface Shape {
  properties?: Record<string, Shape>;
  items?: Shape;
  anyOf?: Shape[];
}

const filters = new WeakMap<TSchema, Filter>();

/** The serializer of a response: removes what its schema does not name, at every depth, and writes JSON. */
export const compileSerializer: FastifySerializerCompiler<TSchema> = ({ schema }) => {
  const filter = filters.get(schema) ?? filterOf(schema) ?? ((value) => value);
  filters.set(schema, filter);
  return (value) => JSON.stringify(filter(value));
};

/** What removes the properties that a schema does not name. Undefined where there is nothing to remove. A union is taken for its one object or array, or null. */
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
