import { randomUUID } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type RawServerDefault,
} from 'fastify';
import { ERRORS } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import type { Logger } from '../runtime/logger.ts';
import { withRequestId } from '../runtime/request-context.ts';
import { requireReach } from './http/access.ts';
import { createAdmissions } from './http/admissions.ts';
import { auditCalls } from './http/audit.ts';
import { authenticate } from './http/auth.ts';
import { findLinkLogo, serveConnectPage } from './connect-page.ts';
import { createCursors, createSigner } from './http/cursor.ts';
import type { ApiDeps } from './deps.ts';
import { serveDraining } from './http/draining.ts';
import { checkHeaders } from './http/hosts.ts';
import { sendClientError, sendFrameworkError, handleErrors } from './http/error-handler.ts';
import { serveHealth } from './http/health.ts';
import { honourIdempotencyKeys } from './http/idempotency.ts';
import { serveMetrics } from './http/metrics.ts';
import type { JsonBounds } from './http/json-bounds.ts';
import { describeApi } from './http/openapi.ts';
import { serveDownloads } from './downloads.ts';
import { serveDocsSite } from './docs-site.ts';
import { servePages } from './pages.ts';
import { servePasswordSignIn } from './password-sign-in.ts';
import { servePersonSignIn } from './person-sign-in.ts';
import { ROUTES } from './routes/index.ts';
import { endQueuedResponses } from './http/queued-responses.ts';
import { compileSerializer } from './http/serialize.ts';
import { serveTracking } from './tracking-routes.ts';
import { compileValidator, readBodies } from './http/validation.ts';

/** Request ids that are accepted from callers. */
const SANE_ID = /^[\w.:/+=@-]{1,128}$/;

const REQUEST_TIMEOUT_MS = 120_000;
/** Fits a query whose parameters all have their maximum length. */
const MAX_HEADER_BYTES = 64 * 1024;

/** Limit for requests that carry no email. */
const SMALL_BODY_BYTES = 1024 * 1024;
const MAX_DEPTH = 32;
const NODES = 10_000;
/** Keys and values of one recipient or attachment, with room for unknown ones. */
const NODES_EACH = 10;

/** The HTTP API, not yet listening. */
export async function buildApp(deps: ApiDeps): Promise<FastifyInstance> {
  const { pool, logger, settings } = deps;
  const app = fastify<RawServerDefault>({
    loggerInstance: logger,
    // Fastify's own log lines contain whole URLs, including search terms
    logController: new LogController({ disableRequestLogging: true }),
    // the logger adds the request id
    childLoggerFactory: (parent) => parent,
    bodyLimit: Math.min(settings.bodyBytes, SMALL_BODY_BYTES),
    // time for a whole request to arrive
    requestTimeout: REQUEST_TIMEOUT_MS,
    http: { maxHeaderSize: MAX_HEADER_BYTES },
    trustProxy: trusted(settings.trustProxy),
    genReqId: ({ headers: { 'x-request-id': given } }) =>
      typeof given === 'string' && SANE_ID.test(given) ? given : randomUUID(),
    routerOptions: { ignoreTrailingSlash: true },
    frameworkErrors: sendFrameworkError,
    clientErrorHandler: sendClientError,
    forceCloseConnections: 'idle',
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.setValidatorCompiler(compileValidator);
  app.setSerializerCompiler(compileSerializer);
  app.addHook('onRequest', (request, reply, done) => {
    // Node keeps it from the first read on: the audit log needs it when the client has gone
    void request.raw.socket.remoteAddress;
    reply.header('X-Request-Id', request.id).header('X-Content-Type-Options', 'nosniff');
    withRequestId(request.id, done);
  });
  checkHeaders(app, settings);
  // caches must not store mail; cacheable responses set their own header
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (!reply.hasHeader('Cache-Control')) reply.header('Cache-Control', 'no-store');
    done();
  });
  // reading a body can lose the context
  app.addHook('preHandler', (request, _reply, done) => withRequestId(request.id, done));
  deps.traceRequests?.(app);
  logResponses(app, logger);
  handleErrors(app, settings);
  endQueuedResponses(app);
  serveDraining(app);
  readBodies(app, jsonBounds(settings));
  await describeApi(app, settings.publicUrl);
  serveHealth(app, deps);
  serveMetrics(app, pool);
  serveTracking(app, deps);
  await serveCodec(app, deps);
  await serveFront(app, deps);

  const signer = createSigner(settings.signingKeys);
  const cursors = createCursors(signer);
  const links = serveDownloads(app, deps, signer);
  const admissions = createAdmissions(pool);
  await app.register(
    async (v1) => {
      requireReach(v1);
      await authenticate(v1, { pool, admissions }, settings);
      auditCalls(v1, deps);
      honourIdempotencyKeys(v1, { ...deps, signer });
      for (const route of ROUTES)
        route(v1.withTypeProvider<TypeBoxTypeProvider>(), { ...deps, cursors, links, admissions });
    },
    { prefix: '/api/v1' },
  );
  return app;
}

/** Serves the pages, and what owners of mailboxes and people of the dashboard sign in at. */
async function serveFront(app: FastifyInstance, deps: ApiDeps): Promise<void> {
  const { settings, pagesDir, docsDir } = deps;
  serveConnectPage(app, deps);
  servePersonSignIn(app, deps);
  servePasswordSignIn(app, deps);
  if (pagesDir !== undefined) await servePages(app, { ...settings, dir: pagesDir, logoOf: findLinkLogo(deps) });
  await serveDocsSite(app, { ...settings, dir: docsDir });
}

/** Serves the codec that decodes histories for the Temporal UI, if it is enabled; the audit log records each use. */
async function serveCodec(app: FastifyInstance, deps: ApiDeps): Promise<void> {
  const { codecRoutes } = deps;
  if (!codecRoutes) return;
  await app.register(
    async (codec) => {
      auditCalls(codec, deps);
      codec.addHook('onRoute', (route) => {
        if (route.method === 'POST') route.config = { ...route.config, audit: 'history.decode' };
      });
      codecRoutes(codec);
    },
    { prefix: '/temporal/codec' },
  );
}

function jsonBounds({ send }: ApiDeps['settings']): JsonBounds {
  return { depth: MAX_DEPTH, nodes: NODES + NODES_EACH * (2 * send.recipients + send.attachments) };
}

/** Routes that monitoring calls every few seconds. */
const PROBES = new Set(['/health', '/ready', '/metrics']);

/** Writes a line for each response. */
function logResponses(app: FastifyInstance, logger: Logger): void {
  // these lines hold only ids and numbers, and redaction takes ten times as long as writing them
  const log = logger.child({}, { redact: [] });
  app.addHook('onResponse', (request, reply, done) => {
    logRequest(log, request, reply);
    done();
  });
}

/** Logs one line per request, without the URL, which contains search terms. */
function logRequest(log: Logger, request: FastifyRequest, reply: FastifyReply): void {
  const { method, routeOptions, params } = request;
  const { account_id, id } = (params ?? {}) as { account_id?: string; id?: string };
  const accountId = account_id ?? (isId('account', id ?? '') ? id : undefined);
  const line = {
    requestId: request.id,
    method,
    route: routeOptions.url ?? 'unknown',
    status: reply.statusCode,
    durationMs: Math.round(reply.elapsedTime * 10) / 10,
    ...(accountId === undefined || !isId('account', accountId) ? {} : { accountId }),
  };
  const isQuiet = PROBES.has(line.route) || line.status === ERRORS.too_many_requests.status;
  log[isQuiet ? 'debug' : 'info'](line, 'request finished');
}

/** Fastify accepts no number of proxies, since clients could bypass them. Operators who set one vouch that none can. */
function trusted(trustProxy: ApiDeps['settings']['trustProxy']) {
  return typeof trustProxy === 'number' ? (_address: string, hop: number) => hop < trustProxy : trustProxy;
}
