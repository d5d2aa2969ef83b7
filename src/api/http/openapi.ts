import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify';
import type { TSchema } from 'typebox';
import * as account from '../../contract/account.ts';
import * as apiKey from '../../contract/api-key.ts';
import * as audit from '../../contract/audit.ts';
import * as authLink from '../../contract/auth-link.ts';
import * as contact from '../../contract/contact.ts';
import * as email from '../../contract/email.ts';
import * as errors from '../../contract/errors.ts';
import * as events from '../../contract/events.ts';
import * as folder from '../../contract/folder.ts';
import * as history from '../../contract/history.ts';
import * as installation from '../../contract/installation.ts';
import * as lookup from '../../contract/lookup.ts';
import * as mailboxConfig from '../../contract/mailbox-config.ts';
import * as oauth from '../../contract/oauth.ts';
import * as person from '../../contract/access/person.ts';
import * as overview from '../../contract/overview.ts';
import * as replay from '../../contract/runs/replay.ts';
import * as imports from '../../contract/runs/import.ts';
import * as sending from '../../contract/sending.ts';
import * as session from '../../contract/access/session.ts';
import * as thread from '../../contract/thread.ts';
import * as tracking from '../../contract/tracking.ts';
import * as webhook from '../../contract/webhook.ts';
import { VERSION } from '../../runtime/version.ts';
import { isRestrictable } from './access.ts';
import { errorResponses } from './error-responses.ts';
import { addExamples } from '../examples.ts';
import { storedText } from '../stored-text.ts';
import { addEvents, EVENT_SCHEMAS } from './openapi-events.ts';

const MODULES = [
  ...[account, email, thread, sending, folder, contact, apiKey, webhook, replay, history, tracking, events, audit],
  ...[errors, authLink, mailboxConfig, oauth, session, person, overview, installation, imports, lookup],
];

type NamedSchema = TSchema & { $id: string; description?: string };

/** The schemas of the contract that have a name (`$id`); the document references them where others use them. */
export const NAMED: readonly NamedSchema[] = MODULES.flatMap((module) =>
  Object.values<unknown>(module).filter(isNamed),
);

function isNamed(value: unknown): value is NamedSchema {
  return typeof value === 'object' && value !== null && '$id' in value;
}

const TAGS = [
  { name: 'Accounts', description: 'Connected mailboxes' },
  { name: 'Emails', description: 'Emails of a mailbox, without drafts' },
  { name: 'Folders', description: 'Folders of a mailbox' },
  { name: 'Drafts', description: 'Drafts of a mailbox' },
  { name: 'Contacts', description: 'People the mailbox has exchanged mail with, and addresses it can send from' },
  { name: 'Imports', description: 'Runs that import mail from before the connect' },
  { name: 'Webhooks', description: 'Endpoints that receive events, the delivery log, and the event feed' },
  {
    name: 'API keys',
    description: 'Keys with full access, or limited to reading or to some accounts; and browser sessions',
  },
  { name: 'People', description: 'Who signs in to the dashboard without a key' },
  { name: 'Audit log', description: 'Who did what to keys, people, accounts and endpoints' },
  { name: 'Installation', description: 'Status and effective settings of the installation' },
];

/** Serves the OpenAPI 3.1 document, made from the schemas that validate requests, at `/openapi.json`. */
export async function describeApi(app: FastifyInstance, publicUrl: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Email Mailbox API',
        version: VERSION,
        description:
          'Connect mailboxes over IMAP and SMTP, read and search them, and receive every change as a webhook. ' +
          'Unknown keys in bodies and queries are ignored, except where a schema has `additionalProperties: false`; dates are ISO 8601 in UTC with milliseconds; every path works ' +
          'with and without a trailing slash. Text that contains NUL returns 400. An id that is malformed or belongs to another account returns 404. ' +
          '503 `errors/service_unavailable` names the unavailable part of the installation within seconds: the database, ' +
          'Temporal, a worker or the storage. Its `detail` says whether a change of the mailbox may still be made, and ' +
          '`Retry-After` when to retry.',
      },
      servers: [{ url: publicUrl }],
      tags: TAGS,
      components: {
        securitySchemes: {
          apiKey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' },
          session: { type: 'apiKey', in: 'cookie', name: 'email_api_session' },
        },
      },
      security: [{ apiKey: [] }, { session: [] }],
    },
    refResolver: { buildLocalReference: (json) => json['$id'] as string },
    transformObject: (document) =>
      addEvents(
        addExamples(allowEmptyBody('openapiObject' in document ? document.openapiObject : document.swaggerObject)),
      ),
    transform: ({ schema, url, route }) => ({ schema: documented(schema, route), url }),
  });
  for (const schema of [...NAMED, ...EVENT_SCHEMAS]) app.addSchema(withReferences(schema, { root: true }));

  serveDocument(app);
}

/** An upload may begin with an empty body; the plugin calls every body required. */
function allowEmptyBody<Document extends object>(document: Document): Document {
  const { paths = {} } = document as { paths?: Record<string, { post?: { requestBody?: { required?: boolean } } }> };
  const body = paths['/api/v1/uploads']?.post?.requestBody;
  if (body) body.required = false;
  return document;
}

/** The document at `/openapi.json`; and at its other addresses, with the server relative to them, and as YAML. */
function serveDocument(app: FastifyInstance): void {
  const hide = { schema: { hide: true } };
  const json = (changes: object) =>
    storedText('application/json; charset=utf-8', () => JSON.stringify({ ...app.swagger(), ...changes }));
  app.get('/openapi.json', hide, json({}));
  app.get('/docs/json', hide, json({ servers: [{ url: '..' }] }));
  app.get('/docs/reference/json', hide, json({ servers: [{ url: '../..' }] }));
  const yaml = storedText('application/yaml; charset=utf-8', () => app.swagger({ yaml: true }));
  app.get('/docs/reference/yaml', hide, yaml);
  app.get('/docs/yaml', hide, (_request, reply) => reply.redirect('reference/yaml'));
}

/** Adapts a route's schema for the document: references, optional defaults, and the responses that hooks add. */
function documented(schema: FastifySchema, { method, config }: Pick<RouteOptions, 'method' | 'config'>): FastifySchema {
  const { querystring, response } = schema;
  return {
    ...withReferences(schema),
    ...(querystring ? { querystring: withOptionalDefaults(querystring) } : {}),
    ...(config?.idempotent ? { headers: IDEMPOTENCY_HEADER } : {}),
    ...(response && isRestrictable(method, config?.reach)
      ? { response: withReferences({ ...response, ...errorResponses('forbidden') }) }
      : {}),
  };
}

const IDEMPOTENCY_HEADER = {
  type: 'object',
  properties: {
    'Idempotency-Key': {
      type: 'string',
      minLength: 1,
      maxLength: 255,
      description: 'Executes the call once: repeated calls with the same key return the first response for 24 h.',
    },
  },
};

interface ObjectSchema {
  required?: string[];
  properties?: Record<string, object>;
}

/** Makes properties with a default optional. */
function withOptionalDefaults(schema: ObjectSchema): ObjectSchema {
  const { required = [], properties = {} } = schema;
  const needed = required.filter((name) => !('default' in (properties[name] ?? {})));
  return { ...withReferences(schema), required: needed };
}

const NAMED_BY_ID = new Map(NAMED.map((schema) => [schema.$id, schema]));

/** A reference to a named schema. Siblings of a `$ref` are lost: a separate description is put around it. */
function referenceTo({ $id, description }: NamedSchema): object {
  const reference = { $ref: `${$id}#` };
  return description === NAMED_BY_ID.get($id)?.description ? reference : { allOf: [reference], description };
}

/** Copies a value and replaces every named schema in it by a reference; `root` exempts the value itself. */
function withReferences<T>(value: T, { root = false } = {}): T {
  if (Array.isArray(value)) return value.map((item: unknown) => withReferences(item)) as T;
  if (typeof value !== 'object' || value === null) return value;
  if (!root && isNamed(value)) return referenceTo(value) as T;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withReferences<unknown>(item)])) as T;
}
