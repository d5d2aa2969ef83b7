import Type from 'typebox';
import { DateTime, Nullable } from './common.ts';

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

export const AuthLink = Type.Object(
  {
    object: Type.Literal('AuthLink'),
    id: Type.String({ description: '`lnk_…`' }),
    url: Type.String({ description: 'the page for the owner of the mailbox; whoever has it may use it, once' }),
    expires_at: DateTime(),
  },
  { $id: 'AuthLink' },
);
export type AuthLink = Type.Static<typeof AuthLink>;

/** Why a link leads to no account; `error` of the redirect. */
export const LINK_ERRORS = ['cancelled', 'expired', 'used'] as const;
export type LinkError = (typeof LINK_ERRORS)[number];

/** What the page of a link shows. It holds nothing that the owner may not see. */
export interface LinkPage {
  status: 'open' | LinkError;
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
