import { ErrorBody, type ErrorCode, ERRORS } from '../../contract/errors.ts';

const RETRY_AFTER = { 'Retry-After': { type: 'integer', description: 'seconds to wait before a retry' } };
const RATE_LIMIT = {
  'RateLimit-Limit': { type: 'integer', description: 'calls allowed per minute' },
  'RateLimit-Remaining': { type: 'integer', description: 'calls left in this minute' },
  'RateLimit-Reset': { type: 'integer', description: 'seconds until the next minute begins' },
};

const HEADERS: Record<number, object> = {
  [ERRORS.too_many_requests.status]: { ...RETRY_AFTER, ...RATE_LIMIT },
  [ERRORS.service_unavailable.status]: RETRY_AFTER,
};

/** OpenAPI responses of these errors, by status. */
export function errorResponses(...codes: ErrorCode[]): Record<string, object> {
  const byStatus = new Map<number, string[]>();
  for (const code of new Set(codes)) {
    const { status, title } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), `\`errors/${code}\` ${title}`]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, lines]) => [
      status,
      {
        description: lines.join('; '),
        ...(status in HEADERS ? { headers: HEADERS[status] } : {}),
        content: { 'application/json': { schema: ErrorBody } },
      },
    ]),
  );
}
