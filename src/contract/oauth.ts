import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf, Success, UpdatedAt } from './common.ts';
import { MailboxConfig } from './mailbox-config.ts';

/**
 * How the access tokens of a mailbox are obtained: exactly one of `access_token`, `refresh_token`, `grant` and
 * `token_source_url`. See src/oauth/grant.ts for which fields belong together.
 */
export const OAuth2Credentials = Type.Object(
  {
    access_token: Type.Optional(
      Type.String({ minLength: 1, maxLength: 16_384, description: 'used until it expires; nothing renews it' }),
    ),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'when `access_token` expires; omitted: unknown' }),
    ),
    refresh_token: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 16_384,
        description: 'with `app_id`, or with `client_id` and `token_url` of your own client',
      }),
    ),
    app_id: Type.Optional(Type.String({ description: '`oap_…`; with `refresh_token` or `grant`' })),
    grant: Type.Optional(
      OneOf(['client_credentials', 'service_account'], {
        description:
          'tokens without a sign-in by the owner: `client_credentials`: Exchange application access; `service_account`: ' +
          'Google domain-wide delegation',
      }),
    ),
    subject: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 320,
        description: '`service_account`: the user to act for; omitted: the login name',
      }),
    ),
    token_source_url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description:
          '`https` URL of your own service, which returns the access tokens; see the page on token sources in the documents',
      }),
    ),
    token_source_secret: Type.Optional(
      Type.String({
        pattern: '^whsec_[A-Za-z0-9+/=]{24,128}$',
        description: 'signs the requests to `token_source_url`, as Standard Webhooks; omitted: they are not signed',
      }),
    ),
    client_id: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: 'id of your own client' })),
    client_secret: Type.Optional(
      Type.String({ minLength: 1, maxLength: 4096, description: 'omitted: a public client' }),
    ),
    token_url: Type.Optional(
      Type.String({ minLength: 1, maxLength: 2048, description: '`https` URL of the token endpoint' }),
    ),
    scope: Type.Optional(
      Type.String({ minLength: 1, maxLength: 2048, description: 'sent with each refresh; omitted: as first granted' }),
    ),
  },
  {
    $id: 'OAuth2Credentials',
    description:
      'how access tokens are obtained, in place of a password: exactly one of `access_token`, `refresh_token`, `grant` and ' +
      '`token_source_url`',
  },
);
export type OAuth2Credentials = Type.Static<typeof OAuth2Credentials>;

export const OAUTH_PROVIDERS = ['google', 'microsoft', 'yahoo', 'fastmail', 'custom'] as const;
export type OAuthProvider = (typeof OAUTH_PROVIDERS)[number];

/** Clouds of Microsoft: worldwide, US Government (GCC High), and China (21Vianet). */
export const MICROSOFT_CLOUDS = ['global', 'us_government', 'china'] as const;
export type MicrosoftCloud = (typeof MICROSOFT_CLOUDS)[number];

export const SECRET_PLACES = ['body', 'header'] as const;

const appFields = {
  provider: OneOf(OAUTH_PROVIDERS, { description: 'where it is registered; `custom`: see `issuer`' }),
  name: Type.String({ minLength: 1, maxLength: 100, description: 'your name for it' }),
  client_id: Type.String({ minLength: 1, maxLength: 512, description: 'id of the client at the provider' }),
  tenant: Type.String({
    minLength: 1,
    maxLength: 253,
    pattern: '^[A-Za-z0-9.-]+$',
    description: 'Microsoft: id or domain of the tenant, `common`, `organizations` or `consumers`',
  }),
  cloud: OneOf(MICROSOFT_CLOUDS, { description: 'Microsoft: the cloud of the tenant' }),
  issuer: Type.String({
    minLength: 1,
    maxLength: 2048,
    description:
      '`custom`: `https` URL of the authorization server, whose endpoints are read from its metadata (RFC 8414)',
  }),
  scope: Type.String({ minLength: 1, maxLength: 2048, description: 'requested scopes, separated by spaces' }),
  client_auth: OneOf(SECRET_PLACES, {
    description: 'where the client secret is sent: in the `body`, or in the `header` Authorization (HTTP Basic)',
  }),
  hosts: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
    maxItems: 50,
    description: 'IMAP and SMTP servers that may get its tokens; the connect page offers it for mailboxes on them',
  }),
};

export const OAuthApp = Type.Object(
  {
    object: ObjectName('OAuthApp'),
    id: Type.String({ description: '`oap_…`' }),
    provider: appFields.provider,
    name: appFields.name,
    client_id: appFields.client_id,
    has_client_secret: Type.Boolean({ description: 'false: a public client, which has none' }),
    service_account_email: Nullable(Type.String({ description: '`client_email` of the service account; null: none' })),
    tenant: Nullable(appFields.tenant, 'null: another provider'),
    cloud: Nullable(appFields.cloud, 'null: another provider'),
    issuer: Nullable(appFields.issuer, 'null: unknown'),
    authorization_url: Nullable(Type.String({ description: 'where owners sign in; null: they cannot' })),
    token_url: Type.String({ description: 'where tokens are issued' }),
    scope: appFields.scope,
    client_auth: appFields.client_auth,
    hosts: appFields.hosts,
    redirect_url: Type.String({ description: 'the redirect address to register at the provider' }),
    status: OneOf(['ok', 'failing'], {
      description:
        '`failing`: the provider refuses the app itself; its accounts stay `running` and get no new tokens until that is corrected',
    }),
    status_detail: Type.String({ description: 'why it is failing; empty: it is not' }),
    failing_since: Nullable(DateTime('when it began to fail; null: it is not failing')),
    created_at: CreatedAt,
    updated_at: UpdatedAt,
  },
  { $id: 'OAuthApp', description: 'a client that you registered at a provider' },
);
export type OAuthApp = Type.Static<typeof OAuthApp>;

export const OAuthAppList = ListOf('OAuthApps', OAuthApp);
export const OAuthAppDeleted = Type.Object(
  { object: ObjectName('OAuthAppDeleted'), id: IdOf('oauthApp'), success: Success },
  { $id: 'OAuthAppDeleted', description: 'the app was deleted' },
);

const appSecrets = {
  client_secret: Nullable(Type.String({ minLength: 1, maxLength: 4096 }), 'null: a public client, with PKCE alone'),
  service_account: Nullable(
    Type.Object({
      client_email: Type.String({ minLength: 3, maxLength: 320, description: 'address of the service account' }),
      private_key: Type.String({ minLength: 1, maxLength: 16_384, description: 'PEM' }),
    }),
    'Google, `custom`: both fields as they are in the JSON key of the service account (JWT bearer, RFC 7523); null: none',
  ),
};

export const CreateOAuthApp = Type.Object(
  {
    provider: appFields.provider,
    name: appFields.name,
    client_id: appFields.client_id,
    client_secret: Type.Optional(appSecrets.client_secret),
    service_account: Type.Optional(appSecrets.service_account),
    tenant: Type.Optional(appFields.tenant),
    cloud: Type.Optional(appFields.cloud),
    issuer: Type.Optional(appFields.issuer),
    scope: Type.Optional(appFields.scope),
    client_auth: Type.Optional(appFields.client_auth),
    hosts: Type.Optional(appFields.hosts),
  },
  { $id: 'CreateOAuthApp', description: 'an app to create' },
);
export type CreateOAuthApp = Type.Static<typeof CreateOAuthApp>;

export const UpdateOAuthApp = Type.Partial(
  Type.Object({
    name: appFields.name,
    client_id: appFields.client_id,
    ...appSecrets,
    tenant: appFields.tenant,
    scope: appFields.scope,
    client_auth: appFields.client_auth,
    hosts: appFields.hosts,
  }),
  { $id: 'UpdateOAuthApp', description: 'changes of an app; omitted fields do not change' },
);
export type UpdateOAuthApp = Type.Static<typeof UpdateOAuthApp>;

/** One thing that a verification looked at. */
const Check = Type.Object({
  subject: OneOf(['client', 'redirect', 'application_access', 'service_account'], {
    description:
      '`client`: client id and secret; `redirect`: the redirect address; `application_access`: tokens without a user; ' +
      '`service_account`: tokens for `subject` by domain-wide delegation',
  }),
  outcome: OneOf(['ok', 'wrong', 'unknown'], { description: '`unknown`: the provider did not say' }),
  detail: Type.String({ description: 'what is wrong and what to do; empty: nothing' }),
});

export const VerifyOAuthApp = Type.Object(
  {
    subject: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 320,
        description: 'a user of the domain, to verify a service account with',
      }),
    ),
    application_access: Type.Optional(
      Type.Boolean({ default: false, description: 'also requests a token without a user' }),
    ),
  },
  { $id: 'VerifyOAuthApp', description: 'what to verify besides the client' },
);

export const OAuthAppVerification = Type.Object(
  {
    object: ObjectName('OAuthAppVerification'),
    id: Type.String({ description: '`oap_…`' }),
    ok: Type.Boolean({ description: 'no check found anything wrong' }),
    checks: Type.Array(Check, { description: 'what was checked' }),
  },
  { $id: 'OAuthAppVerification', description: 'what the checks of an app found' },
);
export type OAuthAppVerification = Type.Static<typeof OAuthAppVerification>;

const Server = (description: string) =>
  Type.Object(
    {
      host: Type.String({ minLength: 1, maxLength: 253, description: 'name or IP address of the server' }),
      port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'TCP port' }),
      encryption: Type.Optional(Type.String({ maxLength: 20, description: '`ssl`, `starttls` or `none`' })),
    },
    { description },
  );

/** Body of POST /oauth/device. */
export const CreateDeviceSignIn = Type.Object(
  {
    app_id: Type.String({ description: '`oap_…`: an app whose provider has a device authorization endpoint' }),
    user: Type.String({ minLength: 3, maxLength: 320, description: 'login address of the mailbox' }),
    imap: Type.Optional(Server('IMAP server; omitted: discovered from the address')),
    smtp: Type.Optional(Server('SMTP server; omitted: discovered from the address')),
    account_id: Type.Optional(Type.String({ description: '`acc_…`: the account to reconnect' })),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'name of the account' })),
    state: Type.Optional(Type.String({ maxLength: 1000, description: 'returned in `account.add`' })),
    config: Type.Optional(MailboxConfig),
  },
  { $id: 'CreateDeviceSignIn', description: 'a sign-in to begin' },
);
export type CreateDeviceSignIn = Type.Static<typeof CreateDeviceSignIn>;

export const DEVICE_SIGN_IN_STATUSES = ['waiting', 'connected', 'failed', 'expired'] as const;
export type DeviceSignInStatus = (typeof DEVICE_SIGN_IN_STATUSES)[number];

export const DeviceSignIn = Type.Object(
  {
    object: ObjectName('DeviceSignIn'),
    id: Type.String({ description: '`dvc_…`' }),
    app_id: Type.String({ description: '`oap_…`' }),
    status: OneOf(DEVICE_SIGN_IN_STATUSES, {
      description:
        '`waiting`: for the owner, or for the mail servers to accept the login; `connected`: see `account_id`; `failed`: see ' +
        '`status_detail`; `expired`: the owner did not agree in time',
    }),
    status_detail: Type.String({ description: 'why it failed; empty: it did not' }),
    user_code: Type.String({ description: 'what the owner enters at `verification_uri`' }),
    verification_uri: Type.String({ description: 'page of the provider, which the owner opens on any device' }),
    verification_uri_complete: Nullable(
      Type.String({ description: 'the same page with the code filled in' }),
      'null: the provider has none',
    ),
    account_id: Nullable(Type.String({ description: '`acc_…` that was connected; null: none' })),
    created_at: CreatedAt,
    expires_at: DateTime('until then the owner can agree'),
  },
  { $id: 'DeviceSignIn', description: 'a sign-in by the owner on another device' },
);
export type DeviceSignIn = Type.Static<typeof DeviceSignIn>;

/** A sign-in by the owner at a provider, whose code a worker exchanges for tokens. */
export interface SignIn {
  app_id: string;
  code: string;
  code_verifier: string;
  redirect_url: string;
}

/** Secrets of a sign-in on another device (RFC 8628), which a worker redeems for tokens. */
export interface DeviceGrant {
  app_id: string;
  device_code: string;
}

/** The detail of an error when the owner signed in with another address than the one to connect. */
export const OTHER_ADDRESS = 'the sign-in at the provider was for another address';
