import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf } from './common.ts';
import { MailboxConfig } from './mailbox-config.ts';

const DAY_S = 24 * 60 * 60;
/** Lifetime of a link in seconds: the default, and the longest that a caller may ask for. */
export const LINK_SECONDS = { default: DAY_S, max: 30 * DAY_S };

/** Longest logo in a link: an image of about 48 KB in base64. */
const MAX_LOGO = 65_536;

/** Who asks the owner for the mailbox. */
export const LinkBrand = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 80,
        description: 'whom the page names, in place of `BRAND_NAME`; without control and direction characters',
      }),
    ),
    logo: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: MAX_LOGO,
        description:
          'image in place of `BRAND_LOGO_URL`: a `data:image/…;base64,` URL (PNG, JPEG, GIF, WebP, SVG), or an `https://` URL, ' +
          'which the browser of the owner loads and this service never calls',
      }),
    ),
  },
  { $id: 'LinkBrand', description: 'who asks the owner for the mailbox; omitted: the installation' },
);
export type LinkBrand = Type.Static<typeof LinkBrand>;

/** Body of POST /auth/links. */
export const CreateAuthLink = Type.Object(
  {
    redirect_url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description:
          '`http` or `https` URL that the owner is redirected to; `account_id` or `error`, and `state`, are added to its query',
      }),
    ),
    state: Type.Optional(
      Type.String({ maxLength: 1000, description: 'returned in `account.add` and in the redirect' }),
    ),
    account_id: Type.Optional(Type.String({ description: '`acc_…`: the account to reconnect' })),
    expires_in: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: LINK_SECONDS.max,
        default: LINK_SECONDS.default,
        description: 'lifetime in seconds',
      }),
    ),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'name of the account' })),
    config: Type.Optional(MailboxConfig),
    brand: Type.Optional(LinkBrand),
  },
  { $id: 'CreateAuthLink', description: 'a link to create' },
);
export type CreateAuthLink = Type.Static<typeof CreateAuthLink>;

/** Reasons why a link connected no account: `error` of the redirect. */
export const LINK_ERRORS = ['cancelled', 'expired', 'used'] as const;
export type LinkError = (typeof LINK_ERRORS)[number];

export const LINK_STATUSES = ['open', ...LINK_ERRORS] as const;
export type LinkStatus = (typeof LINK_STATUSES)[number];

const linkFields = {
  object: ObjectName('AuthLink'),
  id: Type.String({ description: '`lnk_…`' }),
  status: OneOf(LINK_STATUSES, {
    description:
      '`open`: usable; `used`: it connected a mailbox; `cancelled`: by the owner; `expired`: its time or its key ended',
  }),
  name: Nullable(Type.String({ description: 'name for the account; null: none was given' })),
  account_id: Nullable(Type.String({ description: '`acc_…` to reconnect; null: any mailbox' })),
  connected_account_id: Nullable(Type.String({ description: '`acc_…` that was connected with it; null: none' })),
  redirect_url: Nullable(Type.String({ description: 'null: the owner stays on the page' })),
  state: Nullable(Type.String({ description: 'null: none was given' })),
  brand_name: Nullable(Type.String({ description: 'name that the page shows; null: that of the installation' })),
  created_by: Type.String({ description: '`pk_…` of the key that created it; revoking that key ends the link' }),
  created_at: CreatedAt,
  expires_at: DateTime('until then the owner can connect with it'),
  used_at: Nullable(DateTime('when it connected a mailbox or the owner cancelled; null: neither')),
};

export const AuthLink = Type.Object(linkFields, {
  $id: 'AuthLink',
  description: 'a link to the page where the owner of a mailbox connects it, once',
});
export type AuthLink = Type.Static<typeof AuthLink>;

export const AuthLinkCreated = Type.Object(
  {
    ...linkFields,
    url: Type.String({
      description:
        'the page for the owner of the mailbox; anyone who has it can use it once; shown only in this response',
    }),
  },
  { $id: 'AuthLinkCreated', description: 'a new link, with its URL' },
);
export type AuthLinkCreated = Type.Static<typeof AuthLinkCreated>;

export const AuthLinkList = ListOf('AuthLinks', AuthLink);
export const AuthLinkDeleted = Type.Object(
  { object: ObjectName('AuthLinkDeleted'), id: IdOf('authLink') },
  { $id: 'AuthLinkDeleted', description: 'the link was revoked' },
);

/** A provider where owners sign in, in place of entering a password. */
export interface SignInOffer {
  name: string;
  /** the provider accepts no passwords */
  only: boolean;
}

/** Content of the page of a link; the owner of the mailbox may see all of it. */
export interface LinkPage {
  status: LinkStatus;
  /** of the link where it has its own, else of the installation */
  brand: { name: string; color: string | null; logo_url: string | null };
  /** address of the account to reconnect */
  address: string | null;
  /** what a login of that account takes */
  login: LoginHelp | null;
  /** the provider where the owner of that address signs in; null: none is set up */
  sign_in: SignInOffer | null;
  /** URL for an owner who does not connect; null: none */
  back_url: string | null;
}

/** Address of one server of a mailbox. */
export const MailServer = Type.Object({
  host: Type.String({ description: 'name of the server' }),
  port: Type.Integer({ description: 'TCP port' }),
  encryption: Type.String({ description: '`SSL`, `STARTTLS` or `NONE`' }),
});

/** What the provider of an address takes at IMAP and SMTP logins. */
export const PASSWORD_LOGINS = ['password', 'app_password', 'none'] as const;
export type PasswordLogin = (typeof PASSWORD_LOGINS)[number];

/** Providers whose logins need more than the password of the account, or have no passwords. */
const PROVIDER_CODES = [
  ...(['gmail', 'icloud', 'yahoo', 'aol', 'fastmail', 'zoho', 'yandex', 'mailru', 'tonline', 'att', 'qq'] as const),
  ...(['netease', 'gmx', 'gmx_com', 'webde', 'mailcom', 'naver', 'wp', 'o2', 'microsoft', 'proton', 'tuta'] as const),
];
export type ProviderCode = (typeof PROVIDER_CODES)[number];

const loginHelp = {
  hint: Nullable(
    Type.String({ description: 'what the provider requires to log in; null: nothing in particular is known' }),
  ),
  help_url: Nullable(Type.String({ description: "the provider's help page; null: none is known" })),
  password_login: OneOf(PASSWORD_LOGINS, {
    description:
      '`password`: nothing else is known; `app_password`: a password made for one program; `none`: no password connects ' +
      'the mailbox, and `hint` says why',
  }),
  // no enum: a client must accept providers that a later version knows
  provider: Nullable(
    Type.Unsafe<ProviderCode>(
      Type.String({
        description:
          'the provider that `hint` is about, for texts in your own language; null: none. So far ' +
          `${PROVIDER_CODES.map((code) => `\`${code}\``).join(', ')}; more may follow`,
      }),
    ),
  ),
};

/** What a login at a provider takes. */
export type LoginHelp = Type.Static<Type.TObject<typeof loginHelp>>;

/** The servers that a connect would use for an address. */
export const MailServers = Type.Object(
  {
    object: ObjectName('MailServers'),
    address: Type.String({ description: 'the address of the call' }),
    imap: Nullable(MailServer, 'null: not found'),
    smtp: Nullable(MailServer, 'null: not found'),
    ...loginHelp,
  },
  { $id: 'MailServers', description: 'the servers that a connect would use for an address' },
);
export type MailServers = Type.Static<typeof MailServers>;
