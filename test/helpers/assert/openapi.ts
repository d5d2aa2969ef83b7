/** A property or parameter schema, as far as its texts are concerned. */
interface Schema {
  type?: string;
  enum?: unknown[];
  description?: string;
  properties?: Record<string, Schema>;
  anyOf?: Schema[];
}

interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  parameters?: { in: string; name: string; description?: string; schema?: Schema }[];
}

/** The parts of an OpenAPI document that have texts. */
export interface Documentation {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const TEXTS = new Set(['summary', 'description', 'title']);

/**
 * The shape of an OpenAPI document: paths, schemas, parameters and responses, without texts and examples. The
 * description of a response and the version are required by OpenAPI, and become empty.
 */
export function shapeOf(value: unknown, isResponse = false): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => shapeOf(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value as Record<string, unknown>);
  return Object.fromEntries(
    entries.flatMap(([key, item]) => {
      if (key === 'example') return [];
      if (key === 'version' && typeof item === 'string') return [[key, '']];
      if (TEXTS.has(key) && typeof item === 'string') return isResponse ? [[key, '']] : [];
      return [[key, key === 'responses' ? responses(item) : shapeOf(item)]];
    }),
  );
}

function responses(value: unknown): unknown {
  return Object.fromEntries(
    Object.entries(value as Record<string, unknown>).map(([status, response]) => [status, shapeOf(response, true)]),
  );
}

/** Every operation of a document. */
export const operationsOf = ({ paths }: Documentation): Operation[] => Object.values(paths).flatMap(Object.values);

/** The names of properties that lack a required description: integers, and values that can be null. */
export function undescribed(schema: Schema, name: string): string[] {
  if (Array.isArray(schema)) return schema.flatMap((item: Schema) => undescribed(item, name));
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {} } = schema;
  const missing = Object.entries(typeof properties === 'object' ? properties : {})
    .filter(([, property]) => needsDescription(property))
    .map(([key]) => `${name}.${key}`);
  return [...missing, ...Object.values(schema).flatMap((part) => undescribed(part as Schema, name))];
}

function needsDescription({ type, enum: values, description, anyOf = [] }: Schema): boolean {
  const isNullable = anyOf.some((option) => option.type === 'null');
  const isDescribed = description !== undefined || anyOf.some((option) => option.description !== undefined);
  return !isDescribed && values === undefined && (type === 'integer' || isNullable);
}

/** Every text of a document, with the path to it. */
export function textsOf(value: unknown, path = ''): [path: string, text: string][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value as Record<string, unknown>).flatMap(([key, item]): [string, string][] => {
    if (key === 'example') return [];
    const at = `${path}/${key}`;
    return TEXTS.has(key) && typeof item === 'string' ? [[at, item]] : textsOf(item, at);
  });
}
