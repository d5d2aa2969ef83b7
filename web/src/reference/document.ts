/** The OpenAPI document, as far as the reference shows it. */

export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  enum?: unknown[];
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: Schema;
}

export type Content = Record<string, { schema?: Schema; example?: unknown }>;

interface Operation {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

export interface OpenApi {
  info: { title: string; version: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, Record<string, Operation>>;
  components: { schemas: Schemas };
}

export type Schemas = Record<string, Schema>;

/** An operation in its place. */
export interface Call extends Operation {
  method: string;
  path: string;
  /** a call that endpoints receive */
  isEvent: boolean;
  /** what the search looks through */
  words: string;
}

export interface Section {
  name: string;
  description: string;
  calls: Call[];
}

export function sectionsOf({ tags, paths, webhooks, components: { schemas } }: OpenApi): Section[] {
  const calls = callsOf(paths, schemas, false);
  const byTag = tags.map(({ name, description }) => ({
    ...{ name, description },
    calls: calls.filter((call) => call.tags[0] === name),
  }));
  const other = calls.filter(({ tags: [tag] }) => !tags.some(({ name }) => name === tag));
  const sections = [
    ...byTag,
    { name: 'Other', description: 'Calls without a key', calls: other },
    { name: 'Events', description: 'Calls that your endpoints receive', calls: callsOf(webhooks, schemas, true) },
  ];
  return sections.filter((section) => section.calls.length > 0);
}

function callsOf(places: OpenApi['paths'], schemas: Schemas, isEvent: boolean): Call[] {
  return Object.entries(places).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const { operationId, summary, description, parameters = [], requestBody } = operation;
      const body = requestBody?.content['application/json']?.schema ?? {};
      const fields = shapeOf(body, schemas).objects.flatMap(({ schema }) => Object.keys(schema.properties ?? {}));
      const names = [...parameters.map(({ name }) => name), ...fields];
      const words = [method, path, operationId, summary, description, ...names].join(' ').toLowerCase();
      return { ...operation, method, path, isEvent, words };
    }),
  );
}

/** A schema in the form in which it is shown. */
export interface Shape {
  /** its type, or the name of its schema */
  label: string;
  /** the object with its fields, for one or a list of it; several of a union */
  objects: { name: string; schema: Schema }[];
  values: unknown[];
  description: string | undefined;
}

export function shapeOf(schema: Schema, schemas: Schemas): Shape {
  const { $ref, items, type, format, description } = schema;
  if ($ref !== undefined) return namedShape($ref.split('/').at(-1) ?? '', schemas);
  const options = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (options) {
    const shape = unionShape(options, schemas);
    return { ...shape, description: description ?? shape.description };
  }
  if (items) {
    const item = shapeOf(items, schemas);
    return { ...item, label: `list of ${item.label}`, description: description ?? item.description };
  }
  const { additionalProperties: more, properties } = schema;
  if (typeof more === 'object') {
    const value = shapeOf(more, schemas);
    return { ...value, label: `object with values of ${value.label}`, description };
  }
  const label = format ?? type ?? 'any';
  return { label, objects: properties ? [{ name: label, schema }] : [], values: schema.enum ?? [], description };
}

function namedShape(name: string, schemas: Schemas): Shape {
  const shape = shapeOf(schemas[name] ?? {}, schemas);
  const objects = shape.objects.length === 1 ? shape.objects.map(({ schema }) => ({ name, schema })) : shape.objects;
  return { ...shape, objects, label: objects.length > 0 || shape.values.length > 1 ? name : shape.label };
}

function unionShape(options: Schema[], schemas: Schemas): Shape {
  const shapes = options.map((option) => shapeOf(option, schemas));
  return {
    label: [...new Set(shapes.map(({ label }) => label))].join(' or '),
    objects: shapes.flatMap(({ objects }) => objects),
    values: shapes.flatMap(({ values }) => values),
    description: shapes.find(({ description }) => description !== undefined)?.description,
  };
}

/** The default and the bounds of a value or of the values of a union, in words. */
export function boundsOf(schema: Schema): string {
  const bounds = [schema, ...(schema.anyOf ?? [])].flatMap((one) => [
    ...(one.default === undefined ? [] : [`default ${JSON.stringify(one.default)}`]),
    range(one.minimum, one.maximum),
    range(one.minLength, one.maxLength, 'characters'),
    range(one.minItems, one.maxItems, 'entries'),
    ...(one.pattern === undefined ? [] : [`like ${one.pattern}`]),
  ]);
  return bounds.filter(Boolean).join(', ');
}

function range(least: number | undefined, most: number | undefined, unit = ''): string {
  if (least === undefined && most === undefined) return '';
  if (least === undefined) return `at most ${most} ${unit}`.trim();
  if (most === undefined && least === 1 && unit !== '') return 'not empty';
  return `${most === undefined ? `at least ${least}` : `${least} to ${most}`} ${unit}`.trim();
}
