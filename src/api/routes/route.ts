import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest, RawServerDefault } from 'fastify';
import Type from 'typebox';
import { ApiError, type ErrorCode } from '../../contract/errors.ts';
import { type IdKind, idPattern, idText } from '../../contract/ids.ts';
import { getAccountState } from '../../db/queries/account-health.ts';
import type { Queryable } from '../../db/driver/client.ts';
import type { JsonOf, JsonPieces } from '../../db/driver/json-text.ts';
import type { Admissions } from '../http/admissions.ts';
import type { DownloadLinks } from '../http/download-links.ts';
import type { Cursors } from '../http/cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { errorResponses } from '../http/error-responses.ts';

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;
export interface RouteDeps extends ApiDeps {
  cursors: Cursors;
  links: DownloadLinks;
  admissions: Admissions;
}
/** Registers the routes of one resource; paths are relative to /api/v1. */
export type Routes = (app: Api, deps: RouteDeps) => void;

/** Schema of an id in a path; other values return 404. */
export const Id = (kind: IdKind) => Type.String({ pattern: idPattern(kind).source, description: idText(kind) });

export const AccountParams = Type.Object({ account_id: Id('account') });

/** Returns the resource. @throws ApiError `not_found` when it is undefined */
export function existing<T>(resource: T | undefined, what: string): T {
  if (resource === undefined) throw new ApiError('not_found', `no ${what} has this id`);
  return resource;
}

/** Sends JSON text as bytes, since Node is slow to measure and write large strings. */
export function sendJson<T>(reply: FastifyReply, json: JsonOf<T> | JsonPieces<T>): FastifyReply {
  const bytes = typeof json === 'string' ? Buffer.from(json) : Buffer.concat(json);
  return reply.type('application/json; charset=utf-8').send(bytes);
}

/** OpenAPI responses of a route: 200 with JSON, `errors`, and the errors of every route. */
export function responses(description: string, schema: Type.TSchema, ...errors: ErrorCode[]): Record<number, object> {
  return responsesAs('application/json', description, schema, ...errors);
}

/** OpenAPI responses of a route that succeeds with 201 or 204; `schema` null: without a body. */
export function responsesWith(
  status: 201 | 204,
  description: string,
  schema: Type.TSchema | null,
  ...errors: ErrorCode[]
): Record<number, object> {
  const { 200: _, ...rest } = responses(description, Type.Unknown(), ...errors);
  return {
    [status]: { description, ...(schema ? { content: { 'application/json': { schema } } } : NO_BODY) },
    ...rest,
  };
}

/** Tells the document that a response has no body. */
export const NO_BODY = { type: 'null' };

/** OpenAPI responses of a route that returns another media type than JSON. */
export function responsesAs(
  mediaType: string,
  description: string,
  schema: Type.TSchema,
  ...errors: ErrorCode[]
): Record<number, object> {
  const codes: ErrorCode[] = [
    'invalid_parameters',
    'unauthorized',
    ...errors,
    'too_many_requests',
    'unexpected_error',
    'service_unavailable',
  ];
  return { 200: { description, content: { [mediaType]: { schema } } }, ...errorResponses(...codes) };
}

/**
 * As `requireWritable`, for a call that creates something under its reserved id. What an earlier call with its Idempotency-Key has
 * made (`findMade`) is answered in any case: its mailbox may have been disconnected since, and a new key would make it twice.
 */
export async function requireWritableUnlessMade(
  db: Queryable,
  { repeatsUnanswered }: Pick<FastifyRequest, 'repeatsUnanswered'>,
  accountId: string,
  findMade: () => Promise<unknown>,
): Promise<void> {
  if (repeatsUnanswered && (await findMade())) return;
  await requireWritable(db, accountId);
}

/**
 * Checks that the mailbox can be changed. Changes of an `errored` account are attempted.
 * @throws ApiError not_found; invalid_credentials when the provider rejected the account's login
 */
export async function requireWritable(db: Queryable, accountId: string): Promise<void> {
  const account = await getAccountState(db, accountId);
  if (!account) throw new ApiError('not_found', 'no account has this id');
  if (account.status === 'disconnected') {
    throw new ApiError('invalid_credentials', 'the provider rejected the login of this account: reconnect it');
  }
}
