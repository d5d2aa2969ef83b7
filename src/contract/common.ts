import Type from 'typebox';
import { type IdKind, idText } from './ids.ts';

/** A date of the API: ISO 8601 in UTC with milliseconds. */
export const DateTime = (description: string) => Type.String({ format: 'date-time', description });

export const CreatedAt = DateTime('when it was created');
export const UpdatedAt = DateTime('when it was last changed');

/** `object` of a resource: the kind of resource. */
export const ObjectName = <const Name extends string>(name: Name) =>
  Type.Literal(name, { description: `always \`${name}\`: the kind of object` });

/** `success` of a resource that was deleted. */
export const Success = Type.Literal(true, { description: 'always true' });

/** An id in a body; `what` follows its prefix in the description: "of the account". */
export const IdOf = (kind: IdKind, what?: string) => Type.String({ description: idText(kind, what) });

/** A named schema with its meaning in one place. */
export const Described = <T extends Type.TSchema>(schema: T, description: string): T =>
  Type.With(schema, { description }) as unknown as T;

/** A nullable schema, as a union: the form that OpenAPI 3.1 tools read. */
export const Nullable = <T extends Type.TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description ? { description } : {});

/** A string that is one of the given values. */
export const OneOf = <Values extends string[]>(
  values: readonly [...Values],
  more: { description?: string; $id?: string } = {},
) => Type.Enum(values, { type: 'string', ...more });

const PAGE = 'a page of a list';

const listFields = <T extends Type.TSchema>(name: string, item: T) => ({
  object: ObjectName(name),
  data: Type.Array(item, { description: 'the items of this page' }),
  has_more: Type.Boolean({ description: 'whether items follow this page' }),
});

/** `{object, data, has_more}`: the envelope of every list. */
export const ListOf = <T extends Type.TSchema>(name: string, item: T) =>
  Type.Object(listFields(name, item), { $id: `${name}List`, description: PAGE });

/** A list that pages by cursor: adds `cursor`, null on the last page. */
export const CursorListOf = <T extends Type.TSchema>(name: string, item: T) =>
  Type.Object(
    {
      ...listFields(name, item),
      cursor: Nullable(
        Type.String({ description: 'pass it as `cursor` to get the next page; null: this is the last page' }),
      ),
    },
    { $id: `${name}List`, description: PAGE },
  );

export const DEFAULT_LIMIT = 20;
export const MAX_LIMIT = 250;
/** Bytes of the texts of one page: what follows waits for the next page, so that no page exhausts the memory. */
export const MAX_PAGE_BYTES = 16 * 1024 * 1024;

/** `limit` of a paged list: integer 1 to 250. */
export const Limit = (fallback = DEFAULT_LIMIT) =>
  Type.Integer({
    minimum: 1,
    maximum: MAX_LIMIT,
    default: fallback,
    description: 'page size; a page of large emails or events is shorter',
  });

/** Integers in queries have at most 15 digits. */
const MAX_OFFSET = 999_999_999_999_999;

/** `offset` of a list that pages by offset. */
export const Offset = Type.Integer({
  minimum: 0,
  maximum: MAX_OFFSET,
  default: 0,
  description: 'number of items to skip',
});

/** An opaque cursor from the response of a list. */
export const Cursor = Type.String({ maxLength: 2048, description: '`cursor` of the previous response' });

/** Range of years that ISO 8601 writes with four digits and Postgres reads. */
const FIRST = Date.parse('0001-01-01T00:00:00.000Z');
const LAST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Reads a valid RFC 3339 date. A leap second becomes the end of its minute; dates are clamped to the years 1 to 9999.
 */
export function readDate(text: string): Date {
  const time = Date.parse(text.replace(/(T\d\d:\d\d:)60(\.\d+)?/i, '$159.999'));
  return new Date(Math.min(Math.max(time, FIRST), LAST));
}

/** Reads an optional RFC 3339 date; see `readDate`. */
export function readOptionalDate(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : readDate(text);
}
