import Type from 'typebox';
import { OneOf } from './common.ts';

/**
 * Every error of the API.
 * Code throws `new ApiError(code, detail)`; the HTTP layer looks up status and title here.
 */
export const ERRORS = {
  invalid_parameters: { status: 400, title: 'Invalid parameters' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  invalid_credentials: { status: 401, title: 'Invalid credentials' },
  forbidden: { status: 403, title: 'Forbidden' },
  not_found: { status: 404, title: 'Not found' },
  already_exists: { status: 409, title: 'Already exists' },
  provider_rejected: { status: 422, title: 'Rejected by the provider' },
  too_many_requests: { status: 429, title: 'Too many requests' },
  unexpected_error: { status: 500, title: 'Unexpected error' },
  provider_error: { status: 502, title: 'Mail provider error' },
  service_unavailable: { status: 503, title: 'Service unavailable' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** What is wrong with one field of a request. */
export const FieldError = Type.Object({
  path: Type.String({ description: 'the field, with a dot before each member or index: `to.0.email`' }),
  message: Type.String({ description: 'for people; may change' }),
});
export type FieldError = Type.Static<typeof FieldError>;

/** An error for callers: `detail` names the cause, never internals or secrets. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly fields: readonly FieldError[];
  constructor(code: ErrorCode, detail: string, options: ErrorOptions & { fields?: readonly FieldError[] } = {}) {
    super(`${code}: ${detail}`, options);
    this.name = 'ApiError';
    this.code = code;
    this.detail = detail;
    this.fields = options.fields ?? [];
  }
}

/** The JSON body of every error (docs/errors.md). */
export const ErrorBody = Type.Object(
  {
    status: Type.Integer({ description: 'HTTP status' }),
    type: OneOf(
      (Object.keys(ERRORS) as ErrorCode[]).map((code) => `errors/${code}` as const),
      { description: 'for programs; never changes' },
    ),
    title: Type.String({ description: 'the type for people' }),
    detail: Type.String({ description: 'for people; may change' }),
    errors: Type.Optional(Type.Array(FieldError, { description: 'the fields at fault, where they are known' })),
    request_id: Type.Optional(
      Type.String({ description: '`X-Request-Id`; absent where the request could not be read' }),
    ),
  },
  { $id: 'Error', description: 'the body of every error' },
);
export type ErrorBody = Type.Static<typeof ErrorBody>;

/** The response body for a code and a detail. */
export function errorBody(
  code: ErrorCode,
  detail: string,
  { fields = [], requestId }: { fields?: readonly FieldError[]; requestId?: string } = {},
): ErrorBody {
  const { status, title } = ERRORS[code];
  return {
    ...{ status, type: `errors/${code}` as const, title, detail },
    ...(fields.length > 0 ? { errors: [...fields] } : {}),
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}
