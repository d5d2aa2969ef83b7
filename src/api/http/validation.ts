import { isUtf8 } from 'node:buffer';
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import Format from 'typebox/format';
import type { TLocalizedValidationError } from 'typebox/error';
import { ApiError, type FieldError } from '../../contract/errors.ts';
import { checkJson, type JsonBounds } from './json-bounds.ts';
import { filterOf } from './serialize.ts';

// Addresses beyond ASCII (RFC 6531); the library's own format refuses address literals: `ada@[192.0.2.1]`.
Format.Set('idn-email', (value) => Format.IsEmail(value) || Format.IsIdnEmail(value));

// RFC 3339 alone; the library also accepts a time zone in brackets (RFC 9557), which Date.parse does not read.
const isDateTime = Format.IsDateTime;
Format.Set('date-time', (value) => !value.includes('[') && isDateTime(value));

/**
 * Validates bodies, queries and path parameters against their schemas. Values of bodies are never converted; queries are
 * text, which is read as integers and booleans according to the schema. Unknown keys are removed. An invalid path
 * parameter is reported as `not_found`.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const compiled = Compile(schema);
  const known = filterOf(schema) ?? ((value: unknown) => value);
  const properties: Record<string, TSchema> =
    'properties' in schema ? (schema.properties as Record<string, TSchema>) : {};
  return (input: unknown) => {
    try {
      const given = httpPart === 'querystring' ? readQuery(properties, input as RawQuery) : input;
      if (!compiled.Check(given)) throw invalidFields(compiled.Errors(given));
      const value = known(given);
      checkStorable(value, '');
      return { value };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { error: httpPart === 'params' ? new ApiError('not_found', 'no resource has this id') : error };
    }
  };
};

function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}

/** So many fields are named, each once. */
const NAMED_FIELDS = 20;

function invalidFields(errors: TLocalizedValidationError[]): ApiError {
  const fields = new Map<string, string>();
  for (const error of errors) {
    const { path, message } = describe(error);
    if (!fields.has(path) && fields.size < NAMED_FIELDS) fields.set(path, message);
  }
  const [[path, message] = ['', 'is invalid']] = fields;
  return new ApiError('invalid_parameters', `${path || 'the body'} ${message}`, {
    fields: [...fields].flatMap(([at, text]) => (at ? [{ path: at, message: text }] : [])),
  });
}

type RawQuery = Record<string, string | string[]>;

function readQuery(properties: Record<string, TSchema>, raw: RawQuery): Record<string, unknown> {
  const query: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(properties)) {
    const text = Object.hasOwn(raw, name) ? raw[name] : undefined;
    if (Array.isArray(text)) throw invalid(`${name} must be given once`);
    if (text !== undefined) query[name] = readText(name, schema, text);
    else if ('default' in schema) query[name] = schema['default'];
  }
  return query;
}

function readText(name: string, schema: TSchema, text: string): unknown {
  if (!('type' in schema)) return text;
  if (schema.type === 'integer') {
    if (!/^-?\d{1,15}$/.test(text)) throw invalid(`${name} must be an integer`);
    return Number(text);
  }
  if (schema.type === 'boolean') {
    if (text !== 'true' && text !== 'false') throw invalid(`${name} must be true or false`);
    return text === 'true';
  }
  return text;
}

/** The field of an error, empty for the body itself, and what is wrong with it, without the value. */
function describe(error: TLocalizedValidationError): FieldError {
  const path = error.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');
  switch (error.keyword) {
    case 'required':
      return { path: [path, error.params.requiredProperties[0]].filter(Boolean).join('.'), message: 'is missing' };
    // a key that `additionalProperties: false` refuses
    case 'boolean':
      return { path, message: 'is unknown' };
    case 'additionalProperties':
      return { path: [path, error.params.additionalProperties[0]].filter(Boolean).join('.'), message: 'is unknown' };
    case 'const':
      return { path, message: `must be ${JSON.stringify(error.params.allowedValue)}` };
    case 'enum':
      return { path, message: `must be one of ${error.params.allowedValues.join(', ')}` };
    case 'format':
      return { path, message: `must be ${FORMATS[error.params.format] ?? `a valid ${error.params.format}`}` };
    default:
      return { path, message: error.message };
  }
}

const FORMATS: Record<string, string> = {
  'idn-email': 'an email address',
  'date-time': 'a date and time with its offset, such as 2026-01-31T09:30:00.000Z',
};

/** NUL and halves of surrogate pairs. */
const UNSTORABLE = /[\0\p{Surrogate}]/u;

/** Rejects text that Postgres or a mail header cannot contain, at every depth. */
function checkStorable(value: unknown, path: string): void {
  if (typeof value === 'string') {
    if (UNSTORABLE.test(value)) throw invalid(`${path || 'the body'} contains invalid characters`);
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      const at = path ? `${path}.${key}` : key;
      if (UNSTORABLE.test(key)) throw invalid(`${path || 'the body'} has a key with invalid characters`);
      checkStorable(item, at);
    }
  }
}

/** Parses JSON bodies within bounds. An empty body of any type counts as none: some clients send `Content-Type` without a body. */
export function readBodies(app: FastifyInstance, bounds: JsonBounds): void {
  const parseJson = app.getDefaultJsonParser('remove', 'remove');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^application\/([\w.+-]+\+)?json\b/i, { parseAs: 'buffer' }, (request, bytes, done) => {
    if (bytes.length === 0) done(null, undefined);
    // RFC 8259 8.1; decoded all the same, text would be damaged without a word
    else if (!isUtf8(bytes as Buffer)) done(new ApiError('invalid_parameters', 'the body must be UTF-8'));
    else {
      const text = bytes.toString();
      checkJson(text, bounds).then(
        () => void parseJson(request, text, done),
        (error: Error) => done(error),
      );
    }
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => {
    if (bytes.length === 0) done(null, undefined);
    else done(new ApiError('invalid_parameters', 'the body must be JSON, with Content-Type: application/json'));
  });
}
