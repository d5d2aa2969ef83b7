import Type, { type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { NAMED } from '../../../src/api/http/openapi.ts';

interface Document {
  paths: Record<string, Record<string, Operation | undefined> | undefined>;
}
interface Operation {
  operationId?: string;
  responses: Record<string, { content?: Record<string, { schema: { $ref?: string } }> } | undefined>;
}

const schemas = new Map<unknown, TSchema>(NAMED.map((schema) => ['$id' in schema ? schema.$id : undefined, schema]));

type Compiled = ReturnType<typeof Compile>;
const compiledSchemas = new Map<TSchema, Compiled>();

function compiledOf(schema: TSchema): Compiled {
  const compiled = compiledSchemas.get(schema) ?? Compile(schema);
  compiledSchemas.set(schema, compiled);
  return compiled;
}

/** Throws unless the document has the operation, this status of it, and a schema that the body is an example of. */
export function expectDocumented(document: unknown, method: string, url: string, status: number, body: string): void {
  const operation = findOperation(document as Document, method, url);
  if (!operation) {
    if (status === 404 || status === 401) return;
    throw new Error(`${method} ${url} is not documented`);
  }
  const answer = operation.responses[status];
  if (!answer) throw new Error(`${method} ${url}: ${status} is not documented`);
  const name = answer.content?.['application/json']?.schema.$ref?.split('/').at(-1);
  if (!answer.content && body !== '') throw new Error(`${method} ${url}: ${status} has no body`);
  // a download has the bytes of a file, or a link to them
  if (name === undefined || (name === 'DownloadLink' && !body?.startsWith('{"object"'))) return;
  const schema = schemas.get(name) as TSchema;
  const value = JSON.parse(body) as unknown;
  const compiled = compiledOf(isPartial(url) ? withoutItems(schema) : schema);
  if (!compiled.Check(value)) {
    throw new Error(`${method} ${url}: no ${name}: ${JSON.stringify(compiled.Errors(value)[0])}`);
  }
  const unknown = unknownKeys(schema, value, '');
  if (unknown.length > 0) throw new Error(`${method} ${url}: not in ${name}: ${unknown.join(', ')}`);
}

/** Whether the items of a list have only some of their members. */
const isPartial = (url: string) => /[?&]fields=/.test(url);

/** A list whose items have any of their members. */
function withoutItems(schema: TSchema): TSchema {
  const { $id: _, properties, ...list } = schema as TSchema & { $id?: string; properties: Record<string, TSchema> };
  // an error
  if (!properties['data']) return schema;
  const { items } = properties['data'] as TSchema & { items: TSchema };
  return { ...list, properties: { ...properties, data: Type.Array(Type.Partial(items as Type.TObject)) } };
}

/** The operation of a call. */
export const operationOf = (document: unknown, method: string, url: string) =>
  findOperation(document as Document, method, url);

function findOperation({ paths }: Document, method: string, url: string): Operation | undefined {
  const path = url.replace(/\?.*/, '').replace(/(.)\/$/, '$1');
  const matches = Object.keys(paths).filter((template) =>
    new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`).test(path),
  );
  // a path in plain words comes before one with parameters
  const [template] = matches.sort((a, b) => a.split('{').length - b.split('{').length);
  return template === undefined ? undefined : paths[template]?.[method.toLowerCase()];
}

interface Shape {
  properties?: Record<string, Shape>;
  items?: Shape;
  anyOf?: Shape[];
}

function unknownKeys(schema: Shape, value: unknown, path: string): string[] {
  if (schema.anyOf) {
    const object = schema.anyOf.find((option) => option.properties !== undefined);
    return object && value !== null ? unknownKeys(object, value, path) : [];
  }
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => (schema.items ? unknownKeys(schema.items, item, `${path}[${index}]`) : []));
  }
  const { properties } = schema;
  if (!properties || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    properties[key] ? unknownKeys(properties[key], item, `${path}.${key}`) : [`${path}.${key}`],
  );
}
