import { sql } from 'drizzle-orm';
import { index, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import type { MicrosoftCloud } from '../../contract/oauth.ts';
import { at, bytea } from './columns.ts';

/** The current tokens of accounts that log in with OAuth 2.0. See src/oauth/tokens.ts. */
export const oauthTokens = pgTable(
  'oauth_tokens',
  {
    accountId: text('account_id').primaryKey(),
    /** the app that they are requested with; null: none */
    appId: text('app_id'),
    /** sealed JSON {access_token, refresh_token} */
    tokens: bytea().notNull(),
    /** when the access token expires; null: unknown */
    expiresAt: at('expires_at'),
    /** from when on another one is requested; null: when the server refuses this one */
    renewAt: at('renew_at'),
    /** no request before that: the provider asked for patience, or the last one failed */
    retryAt: at('retry_at'),
    /** whose fault the failure of the last request was (src/oauth/faults.ts); empty: it succeeded */
    fault: text().notNull().default(''),
    /** its detail */
    failure: text().notNull().default(''),
  },
  (t) => [
    index('oauth_tokens_app').on(t.appId).where(sql`${t.appId} is not null`),
    index('oauth_tokens_renewal').on(t.renewAt),
  ],
);

/** What the operator registered at providers. See src/db/queries/oauth-apps.ts. */
export const oauthApps = pgTable('oauth_apps', {
  id: text().primaryKey(),
  provider: text().notNull(),
  name: text().notNull(),
  clientId: text('client_id').notNull(),
  /** sealed JSON {clientSecret, privateKey} */
  secrets: bytea().notNull(),
  /** the other settings */
  settings: jsonb().$type<OAuthAppSettings>().notNull(),
  /** why the provider refuses the app; empty: it does not */
  failure: text().notNull().default(''),
  failingSince: at('failing_since'),
  /** of a failing app: no request before that */
  probeAt: at('probe_at'),
  createdAt: at('created_at').notNull(),
  updatedAt: at('updated_at').notNull(),
});

/** The settings of an app that are no columns. */
export interface OAuthAppSettings {
  tenant: string | null;
  cloud: MicrosoftCloud | null;
  endpoints: {
    issuer: string | null;
    authorizationUrl: string | null;
    tokenUrl: string;
    revocationUrl: string | null;
    deviceUrl: string | null;
  };
  scope: string;
  applicationScope: string | null;
  secretIn: 'body' | 'header';
  /** IMAP and SMTP servers that may get tokens; lower case */
  hosts: string[];
  serviceAccountEmail: string | null;
}

/** Sign-ins on another device (RFC 8628). See src/db/access/device-sign-ins.ts. */
export const deviceSignIns = pgTable(
  'device_sign_ins',
  {
    id: text().primaryKey(),
    appId: text('app_id').notNull(),
    /** sealed JSON of what it began with */
    request: bytea().notNull(),
    /** the intent with the tokens of the owner; null: the owner has not agreed yet */
    intentId: text('intent_id'),
    /** the connected account; null: none */
    accountId: text('account_id'),
    /** why it failed; empty: it did not */
    failure: text().notNull().default(''),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [index('device_sign_ins_expires').on(t.expiresAt)],
);

/** Sign-ins of owners at a provider that have begun. See src/db/access/oauth-sign-ins.ts. */
export const oauthSignIns = pgTable(
  'oauth_sign_ins',
  {
    /** SHA-256 of the state, in hex */
    id: text().primaryKey(),
    linkId: text('link_id').notNull(),
    appId: text('app_id').notNull(),
    /** sealed JSON of what it began with */
    request: bytea().notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [index('oauth_sign_ins_expires').on(t.expiresAt)],
);
