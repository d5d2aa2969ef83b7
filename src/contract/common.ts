import Type from 'typebox';

/** A date of the API: ISO 8601 in UTC with milliseconds. */
export const DateTime = (description?: string) =>
  Type.String({ format: 'date-time', ...(description ? { description } : {}) });

/** A nullable schema, as a union: the form that OpenAPI 3.1 tools read. */
export const Nullable = <T extends Type.TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description ? { description } : {});

/** A string that is one of the given values. */
export const OneOf = <Values extends string[]>(
  values: readonly [...Values],
  more: { description?: string; $id?: string } = {},
) => Type.Enum(values, { type: 'string', ...more });

/** `{object, data, has_more}`: the envelope of every list. */
export const ListOf = <T extends Type.TSchema>(name: string, item: T) =>
  Type.Object({ object: Type.Literal(name), data: Type.Array(item), has_more: Type.Boolean() }, { $id: `${name}List` });

/** A list that pages by cursor: adds `cursor`, null on the last page. */
export const CursorListOf = <T extends Type.TSchema>(name: string, item: T) =>
  Type.Object(
    {
      object: Type.Literal(name),
      data: Type.Array(item),
      has_more: Type.Boolean(),
      cursor: Nullable(
        Type.String({ description: 'pass it as `cursor` to get the next page; null: this is the last page' }),
      ),
    },
    { $id: `${name}List` },
  );

export const DEFAULT_LIMIT = 20;
export const MAX_LIMIT = 250;

/** `limit` of a paged list: integer 1 to 250. */
export const Limit = (fallback = DEFAULT_LIMIT) =>
  Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: fallback, description: 'page size' });

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
export const Cursor = Type.String({ maxLength: 1024, description: '`cursor` of the previous response' });
