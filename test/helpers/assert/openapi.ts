/** A property or parameter schema, as far as its texts are concerned. */
interface Schema {
  $ref?: string;
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  anyOf?: Schema[];
}

interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  parameters?: { name: string; description?: string }[];
}

/** The parts of an OpenAPI document that have texts. */
export interface Documentation {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
  webhooks: Record<string, Record<string, Operation>>;
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
export const operationsOf = ({ paths }: Pick<Documentation, 'paths'>): Operation[] =>
  Object.values(paths).flatMap(Object.values);

/**
 * The paths of properties without a description, in the whole document. One that references a named schema has the description
 * of that schema, one that can be null that of its other form.
 */
export function undescribed({ components: { schemas }, ...document }: Documentation): string[] {
  const isDescribed = ({ description, $ref, anyOf = [] }: Schema): boolean =>
    description !== undefined ||
    ($ref !== undefined && isDescribed(schemas[$ref.split('/').at(-1) ?? ''] ?? {})) ||
    anyOf.some(isDescribed);
  function* search(value: unknown, path: string): Generator<string> {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, item] of Object.entries(value as Record<string, unknown>)) {
      if (key === 'example') continue;
      if (key === 'properties') {
        for (const [name, property] of Object.entries(item as Record<string, Schema>)) {
          if (!isDescribed(property)) yield `${path}.${name}`;
          yield* search(property, `${path}.${name}`);
        }
      } else yield* search(item, `${path}/${key}`);
    }
  }
  return [...search(schemas, ''), ...search(document, '')];
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
