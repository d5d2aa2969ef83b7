import { createHash, type Hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { ApiError, ErrorBody, errorBody } from '../../../contract/errors.ts';
import { SEND_BOUNDS, Upload } from '../../../contract/sending.ts';
import type { Caller } from '../../../db/access/api-keys.ts';
import { newId } from '../../../new-id.ts';
import {
  createUpload,
  deleteUploads,
  endUpload,
  findUpload,
  type NewUpload,
  shownUpload,
  type UploadRow,
} from '../../../outgoing/uploads.ts';
import { compileValidator } from '../../http/validation.ts';
import { checkText, isMediaType } from '../../send-input.ts';
import { readBody, storeBody } from '../../uploads.ts';
import { existing, Id, responses, responsesWith, type RouteDeps, type Routes } from '../route.ts';

const Params = Type.Object({ id: Id('upload') });

const Body = (description: string) => Type.Unsafe<Readable | undefined>(Type.String({ format: 'binary', description }));
const BYTES = ['application/octet-stream'];

const APPENDED: Record<number, object> = {
  ...responses('The upload', Upload, 'not_found'),
  416: {
    description: '`errors/invalid_parameters` The part begins after the end of the stored bytes',
    headers: { 'Upload-Offset': { type: 'integer', description: 'where the next part begins' } },
    content: { 'application/json': { schema: ErrorBody } },
  },
};

/** Of one upload: each is an object in storage, or several. */
const MOST_PARTS = 1000;

/** Routes that receive files to attach. Their bodies are files, which are stored as they arrive. */
export const uploadRoutes: Routes = (parent, deps) => {
  const { db, storage } = deps;
  void parent.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    // bodies are streams; this file reads the headers
    scope.setValidatorCompiler((route) =>
      route.httpPart === 'body' || route.httpPart === 'headers'
        ? (value: unknown) => ({ value })
        : compileValidator(route),
    );
    const app = scope.withTypeProvider<TypeBoxTypeProvider>();

    app.post(
      '/uploads',
      {
        config: { reach: 'within', idempotent: 'streamed' },
        schema: {
          tags: ['Emails'],
          operationId: 'createUpload',
          summary: 'Create an upload',
          description:
            'Stores a file to attach to emails and drafts by its `upload_id`, until it expires. Without `size` the body is the ' +
            'whole file. With `size` it is its beginning, which may be empty: `PATCH` adds the parts that follow. The header ' +
            '`Content-Type` is the type of the file. An upload can be attached by the key that made it. Returns 409 when the ' +
            'uploads of the key would have more than 1 GiB (`MAX_UPLOADED_BYTES`).',
          consumes: BYTES,
          querystring: Type.Object({
            filename: Type.Optional(Type.String({ maxLength: SEND_BOUNDS.fileName, description: 'name of the file' })),
            size: Type.Optional(
              Type.Integer({
                minimum: 0,
                description:
                  'bytes of the whole file, for one that is sent in parts; at most 25 MiB (`MAX_ATTACHMENT_BYTES`)',
              }),
            ),
          }),
          body: Body('the file, or its beginning'),
          response: responsesWith(201, 'The upload', Upload, 'already_exists'),
        },
      },
      async (request, reply) => {
        const given = newUpload(deps, request, request.query);
        const content = createHash('sha256').update(`${given.contentType}\n`);
        const upload = await createUpload(db, given, deps.settings.uploadedBytes);
        if (!upload) {
          const earlier = await earlierUpload(deps, request, { most: given.size, content });
          return reply.code(201).header('Idempotency-Replayed', 'true').send(shownUpload(earlier));
        }
        let firstId: string;
        let isOffered = false;
        try {
          if (sizeOfBody(request) !== 0) {
            const place = { id: upload.id, from: 0, until: upload.size };
            await storeBody(deps, place, request.body as Readable, (piece) => content.update(piece));
          }
          if (request.query.size === undefined) await endUpload(db, upload.id);
          isOffered = true;
          firstId = await request.firstOf(upload.id, content.digest('hex'));
        } catch (error) {
          // the caller has no id to continue with, unless its key has it by now; what is left expires
          if (!isOffered || error instanceof ApiError) await deleteUploads(deps, [upload.id]).catch(() => undefined);
          throw atEnd(request, error);
        }
        if (firstId !== upload.id) {
          await deleteUploads(deps, [upload.id]);
          void reply.header('Idempotency-Replayed', 'true');
        }
        const first = await findUpload(db, firstId);
        if (!first)
          throw new ApiError('already_exists', 'the upload of this Idempotency-Key is deleted: use another key');
        return reply.code(201).send(shownUpload(first));
      },
    );

    app.patch(
      '/uploads/:id',
      {
        config: { reach: 'within' },
        schema: {
          tags: ['Emails'],
          operationId: 'appendToUpload',
          summary: 'Send a part of an upload',
          description:
            'Stores the part that `Content-Range` names. It begins where the stored bytes end (`received`) or before: bytes that ' +
            'are stored are skipped, and a part that is stored already changes nothing. Of a part whose connection was lost, ' +
            'what has arrived stays: `received` of `GET` says where to continue.',
          params: Params,
          consumes: BYTES,
          headers: Type.Object({
            'content-range': Type.String({
              description:
                '`bytes <first>-<last>/<size>`: offsets of the first and the last byte of the body, and `size`',
            }),
          }),
          body: Body('the part'),
          response: APPENDED,
        },
      },
      async (request, reply) => {
        const { id } = request.params;
        const upload = existing(await findUpload(db, id), 'upload');
        if (upload.apiKeyId !== request.caller.apiKeyId) throw new ApiError('not_found', 'no upload has this id');
        const place = placeOf(request, upload);
        if (place.from > upload.received) return outOfRange(reply, upload);
        if (place.until > upload.received) {
          if (upload.parts.length >= MOST_PARTS)
            throw rangeError(`has had ${MOST_PARTS} parts before: send larger ones`);
          await storeBody(deps, { id, ...place }, request.body as Readable).catch((error: unknown) => {
            throw atEnd(request, error);
          });
        }
        return shownUpload(existing(await findUpload(db, id), 'upload'));
      },
    );

    app.get(
      '/uploads/:id',
      {
        config: { reach: 'within' },
        schema: {
          tags: ['Emails'],
          operationId: 'getUpload',
          summary: 'Get an upload',
          description:
            'Returns the upload, with the number of bytes that are stored. Keys with full access see those of others.',
          params: Params,
          response: responses('The upload', Upload, 'not_found'),
        },
      },
      async ({ params: { id }, caller }) => shownUpload(seen(caller, await findUpload(db, id))),
    );

    app.delete(
      '/uploads/:id',
      {
        config: { reach: 'within' },
        schema: {
          tags: ['Emails'],
          operationId: 'deleteUpload',
          summary: 'Delete an upload',
          description:
            'Deletes the upload before it expires. Emails and drafts keep the files that were attached from it.',
          params: Params,
          response: responsesWith(204, 'The upload is deleted', null, 'not_found'),
        },
      },
      async ({ params: { id }, caller }, reply) => {
        seen(caller, await findUpload(db, id));
        await deleteUploads({ db, storage }, [id]);
        return reply.code(204).send();
      },
    );
  });
};

/** Bytes of the body of a request; undefined: it does not say. */
function sizeOfBody({ headers }: FastifyRequest): number | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (length !== undefined) return Number(length);
  return encoding === undefined ? 0 : undefined;
}

/** Checks a new upload before its body is read. */
function newUpload(
  { settings: { send } }: RouteDeps,
  request: FastifyRequest,
  { filename, size }: { filename?: string; size?: number },
): NewUpload {
  const sent = sizeOfBody(request);
  checkText('filename', filename, SEND_BOUNDS.fileName);
  if (size === undefined && sent === 0)
    throw invalid('size is missing: the body is empty, and a file in parts needs it');
  if (size !== undefined && size > send.attachmentBytes) throw invalid(`size is larger than ${send.attachmentBytes}`);
  const most = size ?? send.attachmentBytes;
  if (sent !== undefined && sent > most) throw invalid(`the body is larger than ${most} bytes`);
  return {
    id: newId('upload'),
    apiKeyId: request.caller.apiKeyId,
    filename: filename ?? null,
    contentType: typeOf(request),
    size: size ?? sent ?? most,
  };
}

/**
 * The upload of an earlier call with the same key and body, where its key may have no further one. `most`: bytes of the body.
 * @throws ApiError already_exists when none exists
 */
async function earlierUpload(
  { db, settings: { uploadedBytes } }: RouteDeps,
  request: FastifyRequest,
  { most, content }: { most: number; content: Hash },
): Promise<UploadRow> {
  let upload: UploadRow | undefined;
  if (request.headers['idempotency-key'] !== undefined) {
    if (sizeOfBody(request) !== 0) {
      await readBody(request.body as Readable, most, (piece) => content.update(piece)).catch((error: unknown) => {
        throw atEnd(request, error);
      });
    }
    const id = await request.earlierOf(content.digest('hex'));
    if (id !== undefined) upload = await findUpload(db, id);
  }
  if (upload) return upload;
  throw new ApiError(
    'already_exists',
    `the uploads of this key would have more than ${uploadedBytes} bytes: delete some, or wait until they expire`,
  );
}

/** The type that curl gives to every body. */
const OF_FORMS = 'application/x-www-form-urlencoded';

/** The type of the file; null: the request names none. */
function typeOf({ headers: { 'content-type': type } }: FastifyRequest): string | null {
  if (type === undefined || type === OF_FORMS) return null;
  if (isMediaType(type)) return type;
  throw headerError('Content-Type', 'must be the type of the file, which is the body itself: not multipart');
}

/** Where the body of a part belongs. @throws ApiError invalid_parameters */
function placeOf(request: FastifyRequest, { size }: UploadRow): { from: number; until: number } {
  const [, ...numbers] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(request.headers['content-range'] ?? '') ?? [];
  const [first, last, total] = numbers.map(Number);
  if (first === undefined || last === undefined || first > last)
    throw rangeError('must be bytes <first>-<last>/<size>');
  if (total !== size || last >= size) throw rangeError(`must be within the file, which has ${size} bytes`);
  const sent = sizeOfBody(request);
  const named = last - first + 1;
  if (sent !== undefined && sent !== named) throw rangeError(`names ${named} bytes, and the body has ${sent}`);
  return { from: first, until: last + 1 };
}

function outOfRange(reply: FastifyReply, { received }: UploadRow): FastifyReply {
  const { detail, fields } = rangeError(`must begin at ${received} or before: so many bytes are stored`);
  const body = errorBody('invalid_parameters', detail, { fields, requestId: reply.request.id });
  return reply
    .code(416)
    .header('Upload-Offset', received)
    .type('application/json; charset=utf-8')
    .send({ ...body, status: 416 });
}

/** Discards the rest of a body that is not stored: a client may not read the response while it is sending. */
function atEnd({ raw }: FastifyRequest, error: unknown): unknown {
  raw.resume();
  return error;
}

/** The upload, if the caller may see it. */
function seen({ apiKeyId, permissions, accountIds }: Caller, upload: UploadRow | undefined): UploadRow {
  const isSeen = upload?.apiKeyId === apiKeyId || (permissions === 'full' && accountIds === null);
  return existing(isSeen ? upload : undefined, 'upload');
}

const invalid = (detail: string) => new ApiError('invalid_parameters', detail);
const headerError = (path: string, message: string) =>
  new ApiError('invalid_parameters', `${path} ${message}`, { fields: [{ path, message }] });
const rangeError = (message: string) => headerError('Content-Range', message);
