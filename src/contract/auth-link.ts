import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';

const DAY_S = 24 * 60 * 60;
/** How long a link may be used, when nothing else is asked for, and at most; seconds. */
export const LINK_SECONDS = { default: DAY_S, max: 30 * DAY_S };

export const AuthLinkConfig = Type.Object(
  {
    initial_sync_enable: Type.Optional(Type.Boolean({ default: false })),
    initial_sync_days: Type.Optional(Type.Integer({ minimum: 1, maximum: 30, default: 30 })),
  },
  { $id: 'AuthLinkConfig' },
);
export type AuthLinkConfig = Type.Static<typeof AuthLinkConfig>;

/** Body of POST /auth/links. */
export const CreateAuthLink = Type.Object(
  {
    redirect_url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description:
          'where the owner is sent afterwards: `http` or `https`; `account_id` or `error`, and `state`, are added to its query',
      }),
    ),
    state: Type.Optional(
      Type.String({ maxLength: 1000, description: 'comes back in `account.add` and in the redirect' }),
    ),
    account_id: Type.Optional(Type.String({ description: '`acc_…`: that mailbox is connected again' })),
    expires_in: Type.Optional(
      Type.Integer({ minimum: 60, maximum: LINK_SECONDS.max, default: LINK_SECONDS.default, description: 'seconds' }),
    ),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'of the account' })),
    config: Type.Optional(AuthLinkConfig),
  },
  { $id: 'CreateAuthLink' },
);
export type CreateAuthLink = Type.Static<typeof CreateAuthLink>;

/** Why a link leads to no account; `error` of the redirect. */
export const LINK_ERRORS = ['cancelled', 'expired', 'used'] as const;
export type LinkError = (typeof LINK_ERRORS)[number];

export const LINK_STATUSES = ['open', ...LINK_ERRORS] as const;
export type LinkStatus = (typeof LINK_STATUSES)[number];

const linkFields = {
  object: Type.Literal('AuthLink'),
  id: Type.String({ description: '`lnk_…`' }),
  status: OneOf(LINK_STATUSES, {
    description:
      '`open`: it may be used; `used`: it connected a mailbox; `cancelled` by the owner; `expired`, or its key was revoked',
  }),
  name: Nullable(Type.String({ description: 'what the account is called' })),
  account_id: Nullable(Type.String({ description: '`acc_…` that it connects again; null: any mailbox' })),
  connected_account_id: Nullable(Type.String({ description: '`acc_…` that came of it; null: none' })),
  redirect_url: Nullable(Type.String()),
  state: Nullable(Type.String()),
  created_by: Type.String({ description: '`pk_…` of the key that created it; the link ends with it' }),
  created_at: DateTime(),
  expires_at: DateTime(),
  used_at: Nullable(DateTime('when a mailbox was connected with it, or the owner cancelled')),
};

export const AuthLink = Type.Object(linkFields, { $id: 'AuthLink' });
export type AuthLink = Type.Static<typeof AuthLink>;

export const AuthLinkCreated = Type.Object(
  {
    ...linkFields,
    url: Type.String({
      description:
        'the page for the owner of the mailbox; whoever has it may use it, once; shown only in this response',
    }),
  },
  { $id: 'AuthLinkCreated' },
);
export type AuthLinkCreated = Type.Static<typeof AuthLinkCreated>;

export const AuthLinkList = ListOf('AuthLinks', AuthLink);
export const AuthLinkDeleted = Type.Object(
  { object: Type.Literal('AuthLinkDeleted'), id: Type.String() },
  { $id: 'AuthLinkDeleted' },
);

/** What the page of a link shows. It holds nothing that the owner may not see. */
export interface LinkPage {
  status: LinkStatus;
  /** name, colour and logo of who asks */
  brand: { name: string; color: string | null; logo_url: string | null };
  /** the address of the account that is connected again */
  address: string | null;
  /** where the owner is sent without having connected; null: nowhere */
  back_url: string | null;
}

/** Where one server of a mailbox is. */
export const MailServer = Type.Object({ host: Type.String(), port: Type.Integer(), encryption: Type.String() });

/** The servers of an address, as they are found when it is connected. */
export const MailServers = Type.Object(
  {
    object: Type.Literal('MailServers'),
    address: Type.String(),
    imap: Nullable(MailServer),
    smtp: Nullable(MailServer),
    hint: Nullable(Type.String({ description: 'what the provider wants other than the password of the account' })),
    help_url: Nullable(Type.String({ description: "the provider's page about it" })),
  },
  { $id: 'MailServers' },
);
export type MailServers = Type.Static<typeof MailServers>;
