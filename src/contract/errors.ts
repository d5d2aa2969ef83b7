import Type from 'typebox';

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

/** An error for callers: `detail` names the cause, never internals or secrets. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly detail: string;
  constructor(code: ErrorCode, detail: string, options?: ErrorOptions) {
    super(`${code}: ${detail}`, options);
    this.name = 'ApiError';
    this.code = code;
    this.detail = detail;
  }
}

/** The JSON body of every error (docs/errors.md). */
export const ErrorBody = Type.Object(
  {
    status: Type.Integer({ description: 'HTTP status' }),
    type: Type.String({ description: '`errors/<code>`' }),
    title: Type.String(),
    detail: Type.String(),
  },
  { $id: 'Error' },
);
export type ErrorBody = Type.Static<typeof ErrorBody>;

/** The response body for a code and a detail. */
export function errorBody(code: ErrorCode, detail: string): ErrorBody {
  const { status, title } = ERRORS[code];
  return { status, type: `errors/${code}`, title, detail };
}
