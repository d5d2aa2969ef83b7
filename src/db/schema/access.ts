import { sql } from 'drizzle-orm';
import { index, integer, jsonb, pgTable, primaryKey, smallint, text, uniqueIndex } from 'drizzle-orm/pg-core';
import type { Permissions } from '../../contract/api-key.ts';
import type { LinkBrand } from '../../contract/auth-link.ts';
import type { MailboxConfig } from '../../contract/mailbox-config.ts';
import { at, bytea } from './columns.ts';

export const apiKeys = pgTable('api_keys', {
  id: text().primaryKey(),
  name: text().notNull(),
  /** the look-up part, in clear */
  prefix: text().notNull().unique(),
  /** SHA-256 of the whole key */
  digest: bytea().notNull().unique(),
  /** the id of the key that created it, which may be revoked by now; null: the installation */
  createdBy: text('created_by'),
  permissions: text().$type<Permissions>().notNull().default('full'),
  /** the accounts that it is limited to; null: not limited */
  accountIds: text('account_ids').array(),
  issuedAt: at('issued_at').notNull(),
  expiresAt: at('expires_at'),
  lastUsedAt: at('last_used_at'),
});

/**
 * People who sign in to the dashboard. What they may do, and their sessions, are those of the row of `api_keys` with their id,
 * which no key opens. See src/db/access/persons.ts.
 */
export const persons = pgTable(
  'persons',
  {
    id: text()
      .primaryKey()
      .references(() => apiKeys.id, { onDelete: 'cascade' }),
    /** who the identity provider says it is; null: an invited person */
    issuer: text(),
    subject: text(),
    name: text().notNull(),
    email: text(),
    /** null: not yet */
    signedInAt: at('signed_in_at'),
  },
  (t) => [uniqueIndex('persons_subject').on(t.issuer, t.subject)],
);

/** How invited people sign in. Each has a password or a link to choose one. See src/db/access/invited-persons.ts. */
export const invitedPersons = pgTable('invited_persons', {
  id: text()
    .primaryKey()
    .references(() => persons.id, { onDelete: 'cascade' }),
  /** the address in lower case */
  login: text().notNull().unique(),
  /** scrypt, with its parameters and salt; null: none is chosen */
  password: text(),
  /** SHA-256 of the token in the link to choose one */
  linkDigest: bytea('link_digest').unique(),
  linkExpiresAt: at('link_expires_at'),
});

/** Who changed what of keys, accounts and endpoints; written once. Ids and names. See src/api/http/audit.ts. */
export const auditRecords = pgTable(
  'audit_records',
  {
    id: text().primaryKey(),
    at: at('at').notNull(),
    action: text().notNull(),
    /** status of the response */
    status: smallint().notNull(),
    /** the id of a key or a person; null: the call bore no API key */
    apiKeyId: text('api_key_id'),
    /** name of the key or the person then */
    actorName: text('actor_name'),
    address: text().notNull(),
    requestId: text('request_id').notNull(),
    /** the affected object; null: none */
    objectId: text('object_id'),
    /** its name then, unless it is the address of a mailbox */
    objectName: text('object_name'),
  },
  (t) => [
    index('audit_records_at').on(t.at, t.id),
    index('audit_records_action').on(t.action, t.at, t.id),
    index('audit_records_key').on(t.apiKeyId, t.at, t.id),
    index('audit_records_object').on(t.objectId, t.at, t.id),
  ],
);

/** Browsers that are signed in with a key. Revoking the key deletes them. See src/db/access/sessions.ts. */
export const sessions = pgTable(
  'sessions',
  {
    /** SHA-256 of the token in the cookie */
    digest: bytea().primaryKey(),
    apiKeyId: text('api_key_id')
      .notNull()
      .references(() => apiKeys.id, { onDelete: 'cascade' }),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [index('sessions_api_key').on(t.apiKeyId), index('sessions_expires').on(t.expiresAt)],
);

/** Links to the page where the owner of a mailbox connects it. See src/db/access/auth-links.ts. */
export const authLinks = pgTable(
  'auth_links',
  {
    id: text().primaryKey(),
    /** SHA-256 of the token in the URL */
    digest: bytea().notNull().unique(),
    redirectUrl: text('redirect_url'),
    state: text(),
    /** the name of the account */
    name: text(),
    /** the account to connect again; null: a new one, or the one that has the mailbox */
    accountId: text('account_id'),
    config: jsonb().$type<MailboxConfig>().notNull(),
    /** whom the page names, with which logo; null: as the installation */
    brand: jsonb().$type<LinkBrand>(),
    apiKeyId: text('api_key_id').notNull(),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
    /** login attempts, and when the minute that they are counted in began */
    attempts: integer().notNull().default(0),
    attemptsFrom: at('attempts_from'),
    /** login attempts in all */
    attemptsInAll: integer('attempts_in_all').notNull().default(0),
    /** a login is in progress until then */
    busyUntil: at('busy_until'),
    /** when it was used; null: not yet */
    usedAt: at('used_at'),
    /** the connected account; null: the owner cancelled */
    connectedId: text('connected_id'),
  },
  (t) => [
    index('auth_links_expires').on(t.expiresAt),
    index('auth_links_created').on(t.createdAt, t.id),
    index('auth_links_open').on(t.createdAt, t.id).where(sql`${t.usedAt} is null`),
    index('auth_links_account').on(t.accountId).where(sql`${t.accountId} is not null`),
    index('auth_links_connected').on(t.connectedId).where(sql`${t.connectedId} is not null`),
  ],
);

/** First responses to calls with an Idempotency-Key, for 24 h. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    apiKeyId: text('api_key_id').notNull(),
    key: text().notNull(),
    /** keyed digest of method, path and body */
    fingerprint: bytea().notNull(),
    /** the id of the resource that the call creates: a repeated call creates the same one */
    reservedId: text('reserved_id'),
    /** null while the first call is under way */
    status: smallint(),
    /** sealed: the response may hold a key or a secret */
    response: bytea(),
    /** the account that the response is about: deleted with it */
    accountId: text('account_id'),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.apiKeyId, t.key] }),
    index('idempotency_keys_created').on(t.createdAt),
    index('idempotency_keys_account').on(t.accountId).where(sql`account_id is not null`),
  ],
);
