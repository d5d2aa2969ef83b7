import type { FastifyInstance } from 'fastify';
import { ApiError } from '../contract/errors.ts';

/** Reads JSON bodies. An empty one is no body, whatever its type: clients send `Content-Type` along without one. */
export function readBodies(app: FastifyInstance): void {
  const parseJson = app.getDefaultJsonParser('remove', 'remove');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^application\/([\w.+-]+\+)?json\b/i, { parseAs: 'string' }, (request, text, done) => {
    if (text === '') done(null, undefined);
    else void parseJson(request, text as string, done);
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => {
    if (bytes.length === 0) done(null, undefined);
    else done(new ApiError('invalid_parameters', 'the body must be JSON, with Content-Type: application/json'));
  });
}
