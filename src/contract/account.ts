import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';

export const ACCOUNT_STATUSES = ['running', 'errored', 'disconnected'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

export const INITIAL_SYNC_STATUSES = ['pending', 'running', 'completed', 'failed'] as const;
export type InitialSyncStatus = (typeof INITIAL_SYNC_STATUSES)[number];

export const ENCRYPTIONS = ['SSL', 'STARTTLS', 'NONE'] as const;
/** SSL: TLS from the first byte; STARTTLS: required upgrade; NONE: no TLS at all. */
export type Encryption = (typeof ENCRYPTIONS)[number];

/** How the IMAP or SMTP server of a mailbox is reached, and the login name there. */
export interface ServerSettings {
  /** name or IP address */
  host: string;
  port: number;
  user: string;
  encryption: Encryption;
}

/** The same with the password: all that a login needs. */
export interface ServerLogin extends ServerSettings {
  password: string;
}

export const InitialSync = Type.Object(
  {
    status: OneOf(INITIAL_SYNC_STATUSES),
    started_at: Nullable(DateTime()),
    completed_at: Nullable(DateTime()),
    days: Type.Integer({ minimum: 1, maximum: 30 }),
    imported: Type.Integer({ description: 'emails imported so far' }),
  },
  { $id: 'InitialSync' },
);
export type InitialSync = Type.Static<typeof InitialSync>;

const MailParams = Type.Object({
  imap_host: Type.String(),
  imap_port: Type.Integer(),
  imap_user: Type.String(),
  imap_encryption: OneOf(ENCRYPTIONS),
  smtp_host: Type.String(),
  smtp_port: Type.Integer(),
  smtp_user: Type.String(),
  smtp_encryption: OneOf(ENCRYPTIONS),
});

export const Account = Type.Object(
  {
    object: Type.Literal('Account'),
    id: Type.String(),
    user_id: Type.String({ description: 'lower-cased login address' }),
    name: Type.String(),
    provider: Type.Literal('imap'),
    status: OneOf(ACCOUNT_STATUSES),
    status_detail: Type.String({
      description: 'reason for the status, in words of the mail provider; empty when there is none',
    }),
    is_locked: Type.Boolean(),
    metadata: Type.Record(Type.String(), Type.String()),
    connection_params: Type.Object({ mail: MailParams }),
    created_at: DateTime(),
    last_synced_at: Nullable(DateTime()),
    initial_sync: Nullable(InitialSync),
  },
  { $id: 'Account' },
);
export type Account = Type.Static<typeof Account>;

export const AccountList = ListOf('Accounts', Account);
export const AccountDeleted = Type.Object(
  { object: Type.Literal('AccountDeleted'), id: Type.String(), success: Type.Literal(true) },
  { $id: 'AccountDeleted' },
);

export const MailboxVerification = Type.Object(
  {
    object: Type.Literal('MailboxVerification'),
    account_id: Type.String(),
    status: OneOf(['running', 'completed']),
    workflow_id: Type.String(),
    folders: Type.Integer({ description: 'folders that were compared' }),
    messages: Type.Integer({ description: 'messages that were compared' }),
    differences: Type.Integer({ description: 'differences that outlasted a sync pass; each is repaired' }),
    left: Type.Integer({ description: 'differences that are there still' }),
    sample: Type.Array(
      Type.Object({
        folder_id: Type.String(),
        kind: OneOf(['message_not_stored', 'message_missing', 'other_message', 'flags', 'counters']),
        uid: Type.Integer({ description: '0: the folder' }),
      }),
      { description: 'the first of the differences' },
    ),
  },
  { $id: 'MailboxVerification' },
);
export type MailboxVerification = Type.Static<typeof MailboxVerification>;

export const MailboxReparse = Type.Object(
  {
    object: Type.Literal('MailboxReparse'),
    account_id: Type.String(),
    status: OneOf(['running', 'completed']),
    workflow_id: Type.String(),
    unchanged: Type.Integer({ description: 'emails that are as they were' }),
    changed: Type.Integer({ description: 'emails of which something is read otherwise now' }),
    incomplete: Type.Integer({ description: 'emails whose parsing was cut short again' }),
    unreadable: Type.Integer({ description: 'emails whose source is not stored any more' }),
  },
  { $id: 'MailboxReparse' },
);
export type MailboxReparse = Type.Static<typeof MailboxReparse>;

const Side = Type.Object({
  user: Type.Optional(Type.String({ minLength: 1, maxLength: 320 })),
  password: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
  host: Type.String({ minLength: 1, maxLength: 253 }),
  port: Type.Integer({ minimum: 1, maximum: 65535 }),
  encryption: Type.Optional(
    Type.String({ description: '`ssl`/`tls`, `starttls`, `default` (by port) or `none`; case does not matter' }),
  ),
});

/** Body of POST /auth/intent. */
export const AuthIntent = Type.Object(
  {
    provider: Type.Literal('imap'),
    credentials: Type.Object({
      user: Type.Optional(Type.String({ minLength: 1, maxLength: 320, description: 'login address' })),
      password: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
      imap: Type.Optional(Side),
      smtp: Type.Optional(Side),
    }),
    config: Type.Optional(
      Type.Object({
        initial_sync_enable: Type.Optional(Type.Boolean({ default: false })),
        initial_sync_days: Type.Optional(Type.Integer({ minimum: 1, maximum: 30, default: 30 })),
      }),
    ),
    state: Type.Optional(Type.String({ maxLength: 1000 })),
    account_id: Type.Optional(Type.String()),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  },
  { $id: 'AuthIntent' },
);
export type AuthIntent = Type.Static<typeof AuthIntent>;
