import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { Account, AccountDeleted, AccountList, AuthIntent, InitialSync } from '../contract/account.ts';
import { ApiKey, ApiKeyCreated, ApiKeyDeleted, ApiKeyList, CreateApiKey } from '../contract/api-key.ts';
import { Contact, ContactList, EmailSender, EmailSenderList } from '../contract/contact.ts';
import {
  Attachment,
  Attendee,
  Bounce,
  DraftList,
  Email,
  EmailList,
  Header,
  SentBy,
  Thread,
} from '../contract/email.ts';
import { ErrorBody } from '../contract/errors.ts';
import { EventEnvelope } from '../contract/events.ts';
import { CreateFolder, Folder, FolderList, UpdateFolder } from '../contract/folder.ts';
import {
  DraftResult,
  DraftSent,
  EmailDeleted,
  EmailSent,
  Recipient,
  SendAttachment,
  SendInput,
  TrackingOptions,
} from '../contract/sending.ts';
import {
  CreateWebhookEndpoint,
  DeliveryAttempt,
  UpdateWebhookEndpoint,
  WebhookConversation,
  WebhookConversationDetail,
  WebhookConversationList,
  WebhookEndpoint,
  WebhookEndpointDeleted,
  WebhookEndpointList,
} from '../contract/webhook.ts';
import { type OpenApiDocument, referencePage } from './reference-page.ts';

/** Schemas that the document names; wherever one of them stands in another, the document refers to it. */
export const NAMED = [
  ...[Account, AccountDeleted, AccountList, AuthIntent, InitialSync],
  ...[Attachment, Attendee, Bounce, Email, EmailList, DraftList, Header, SentBy, Thread],
  ...[Recipient, TrackingOptions, SendAttachment, SendInput, EmailSent, DraftResult, DraftSent, EmailDeleted],
  ...[Folder, FolderList, CreateFolder, UpdateFolder, Contact, ContactList, EmailSender, EmailSenderList],
  ...[ApiKey, ApiKeyCreated, ApiKeyDeleted, ApiKeyList, CreateApiKey],
  ...[WebhookEndpoint, WebhookEndpointDeleted, WebhookEndpointList, CreateWebhookEndpoint, UpdateWebhookEndpoint],
  ...[WebhookConversation, WebhookConversationDetail, WebhookConversationList, DeliveryAttempt],
  ...[EventEnvelope, ErrorBody],
];

const TAGS = [
  { name: 'Accounts', description: 'Connected mailboxes' },
  { name: 'Emails', description: 'Mail of a mailbox; newest first, drafts apart' },
  { name: 'Folders', description: 'Folders of a mailbox' },
  { name: 'Drafts', description: 'Drafts of a mailbox' },
  { name: 'Contacts', description: 'People the mailbox has exchanged mail with, and addresses that it may send from' },
  { name: 'Webhooks', description: 'Endpoints that are told of events, and the log of what they were told' },
  { name: 'API keys', description: 'Keys that give full access' },
];

/** Serves the OpenAPI 3.1 document, made of the schemas that validate, and a page to read it by. */
export async function describeApi(app: FastifyInstance, publicUrl: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Email Mailbox API',
        version: '1.0.0',
        description:
          'Connect mailboxes over IMAP and SMTP, read and search them, and hear of every change by webhooks. ' +
          'Unknown keys in bodies and queries are ignored; dates are ISO 8601 in UTC with milliseconds; every path works ' +
          'with and without a trailing slash. An id that is malformed or of another account is not found.',
      },
      servers: [{ url: publicUrl }],
      tags: TAGS,
      components: {
        securitySchemes: { apiKey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' } },
      },
      security: [{ apiKey: [] }],
    },
    refResolver: { buildLocalReference: (json) => json['$id'] as string },
    transform: ({ schema, url, route }) => ({ schema: documented(schema, route.config?.idempotent ?? false), url }),
  });
  for (const schema of NAMED) app.addSchema(withReferences(schema, { root: true }));

  let text: string | undefined;
  app.get('/openapi.json', { schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger());
    return reply.type('application/json; charset=utf-8').send(text);
  });
  let page: string | undefined;
  app.get('/docs', { schema: { hide: true } }, (_request, reply) => {
    page ??= referencePage(app.swagger() as unknown as OpenApiDocument);
    return reply
      .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'")
      .type('text/html; charset=utf-8')
      .send(page);
  });
}

/** A route's schema as the document shows it. */
function documented(schema: FastifySchema, idempotent: boolean): FastifySchema {
  const { querystring, summary } = schema;
  return {
    ...withReferences(schema),
    ...(summary === undefined ? {} : { operationId: operationId(summary) }),
    ...(querystring ? { querystring: withOptionalDefaults(querystring) } : {}),
    ...(idempotent ? { headers: IDEMPOTENCY_HEADER } : {}),
  };
}

const IDEMPOTENCY_HEADER = {
  type: 'object',
  properties: {
    'Idempotency-Key': {
      type: 'string',
      minLength: 1,
      maxLength: 255,
      description: 'The same call with the same key is done once: its first answer is given again for 24 h.',
    },
  },
};

/** `List a folder's emails` → `listFolderEmails`: the name that generated clients give the call. */
function operationId(summary: string): string {
  const words = summary.replace(/'s\b|[^\w\s-]/g, '').split(/[\s-]+/);
  return words
    .filter((word) => !['a', 'an', 'the'].includes(word))
    .map((word, index) => (index === 0 ? word.toLowerCase() : `${word.charAt(0).toUpperCase()}${word.slice(1)}`))
    .join('');
}

interface ObjectSchema {
  required?: string[];
  properties?: Record<string, object>;
}

/** What has a default need not be given. */
function withOptionalDefaults(schema: ObjectSchema): ObjectSchema {
  const { required = [], properties = {} } = schema;
  const needed = required.filter((name) => !('default' in (properties[name] ?? {})));
  return { ...withReferences(schema), required: needed };
}

/** A copy in which every named schema (but the root, if so said) is a reference. */
function withReferences<T>(value: T, { root = false } = {}): T {
  if (Array.isArray(value)) return value.map((item: unknown) => withReferences(item)) as T;
  if (typeof value !== 'object' || value === null) return value;
  if (!root && '$id' in value) return { $ref: `${String(value.$id)}#` } as T;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withReferences<unknown>(item)])) as T;
}
