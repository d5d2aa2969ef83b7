import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';
import { FOLDER_ROLES } from './folder.ts';
import { OAuth2Credentials, type SignIn } from './oauth.ts';

export const ACCOUNT_STATUSES = ['running', 'errored', 'disconnected'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

export const INITIAL_SYNC_STATUSES = ['pending', 'running', 'completed', 'failed'] as const;
export type InitialSyncStatus = (typeof INITIAL_SYNC_STATUSES)[number];

export const ENCRYPTIONS = ['SSL', 'STARTTLS', 'NONE'] as const;
/** SSL: implicit TLS (RFC 8314); STARTTLS: an upgrade that is required; NONE: no TLS. */
export type Encryption = (typeof ENCRYPTIONS)[number];

/** Address of the IMAP or SMTP server of a mailbox, and the login name there. */
export interface ServerSettings {
  /** name or IP address */
  host: string;
  port: number;
  user: string;
  encryption: Encryption;
}

/** Server, login name and password: everything a login needs. */
export interface ServerLogin extends ServerSettings {
  password: string;
  /** present: `password` is an OAuth 2.0 access token */
  token?: TokenTimes;
}

/** The times of an access token; null: unknown. */
export interface TokenTimes {
  /** the server may end its sessions from then on */
  expiresAt: Date | null;
  /** another token replaces it from then on */
  renewAt: Date | null;
}

export const InitialSync = Type.Object(
  {
    status: OneOf(INITIAL_SYNC_STATUSES),
    started_at: Nullable(DateTime('null: not started')),
    completed_at: Nullable(DateTime('when it completed or failed; null: not yet')),
    days: Type.Integer({
      minimum: 1,
      maximum: 30,
      description: 'days of mail to import, counted back from the connect',
    }),
    imported: Type.Integer({ description: 'emails imported so far' }),
  },
  { $id: 'InitialSync' },
);
export type InitialSync = Type.Static<typeof InitialSync>;

const MailParams = Type.Object({
  imap_host: Type.String(),
  imap_port: Type.Integer({ description: 'TCP port' }),
  imap_user: Type.String(),
  imap_encryption: OneOf(ENCRYPTIONS),
  smtp_host: Type.String(),
  smtp_port: Type.Integer({ description: 'TCP port' }),
  smtp_user: Type.String(),
  smtp_encryption: OneOf(ENCRYPTIONS),
});

const FolderPatterns = (description: string) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000-\\u001f\\u007f]*$' }), {
      minItems: 1,
      maxItems: 100,
      description,
    }),
  );

/** Which folders of a mailbox are stored; see src/mailbox/folders/choice.ts. */
export const FolderChoice = Type.Object(
  {
    include: FolderPatterns('only these; omitted: all'),
    exclude: FolderPatterns('none of these, even if `include` names them'),
  },
  {
    $id: 'FolderChoice',
    additionalProperties: false,
    description:
      `An entry is a role (${FOLDER_ROLES.filter((role) => role !== 'UNKNOWN').join(', ')}) or the path of a folder, with \`/\` ` +
      'between a folder and its subfolders; `*` stands for any characters, and case does not matter. An entry also covers the ' +
      'subfolders, except that `INBOX` stands for itself only. A leading `INBOX/` of a path may be omitted.',
  },
);
export type FolderChoice = Type.Static<typeof FolderChoice>;

export const Account = Type.Object(
  {
    object: Type.Literal('Account'),
    id: Type.String(),
    user_id: Type.String({ description: 'lower-cased login address' }),
    name: Type.String(),
    provider: Type.Literal('imap'),
    status: OneOf(ACCOUNT_STATUSES),
    status_detail: Type.String({
      description:
        'reason for the status, as the mail provider states it; of `running`: why it is not in sync, or that its OAuth app is failing; ' +
        'empty: nothing to say',
    }),
    is_locked: Type.Boolean(),
    metadata: Type.Record(Type.String(), Type.String()),
    connection_params: Type.Object({ mail: MailParams }),
    created_at: DateTime(),
    last_synced_at: Nullable(DateTime('end of the latest sync pass; null: none has completed')),
    initial_sync: Nullable(InitialSync, 'null: the account was connected without an initial sync'),
    authserv_id: Type.Optional(
      Nullable(
        Type.String({ description: 'authserv-id of the provider (RFC 8601), whose topmost results are believed' }),
        'null: only results above every Received field are believed',
      ),
    ),
    retention_days: Nullable(
      Type.Integer({ description: 'emails with an older `date` are deleted from the store; the mailbox keeps them' }),
      'null: emails are stored as long as they are in the mailbox',
    ),
    folders: Type.Optional(Nullable(FolderChoice, 'the folders that are stored; null: all')),
  },
  { $id: 'Account' },
);
export type Account = Type.Static<typeof Account>;

export const AccountList = ListOf('Accounts', Account);
export const AccountDeleted = Type.Object(
  {
    object: Type.Literal('AccountDeleted'),
    id: Type.String(),
    success: Type.Literal(true),
    revoked: Type.Optional(
      Type.Boolean({ description: 'only with `revoke`: whether the provider took the sign-in back' }),
    ),
  },
  { $id: 'AccountDeleted' },
);

/** How the store can differ from a mailbox. */
const DIFFERENCES = {
  message_not_stored: 'messages that are not stored',
  message_missing: 'messages that are stored, and that the folder does not hold',
  other_message: 'UIDs that name another message than the one that is stored of them',
  flags: 'flags, and emails whose read state is not that of their locations',
  counters: 'counters of folders',
  email_without_location: 'emails that are in no folder',
  folder_not_stored: 'folders that are not stored',
  folder_missing: 'folders that are stored, and that the mailbox does not have',
} as const;
export type DifferenceKind = keyof typeof DIFFERENCES;
const DIFFERENCE_KINDS = Object.keys(DIFFERENCES) as DifferenceKind[];

function DifferenceCounts(description: string) {
  const counts = DIFFERENCE_KINDS.map((kind) => [
    kind,
    Type.Optional(Type.Integer({ description: DIFFERENCES[kind] })),
  ]);
  return Type.Object(Object.fromEntries(counts) as Record<DifferenceKind, Type.TOptional<Type.TInteger>>, {
    description,
  });
}

export const MailboxVerification = Type.Object(
  {
    object: Type.Literal('MailboxVerification'),
    account_id: Type.String(),
    status: OneOf(['running', 'completed']),
    workflow_id: Type.String(),
    folders: Type.Integer({ description: 'folders compared' }),
    messages: Type.Integer({ description: 'messages compared' }),
    differences: Type.Integer({ description: 'differences that a sync pass did not resolve; each is repaired' }),
    left: Type.Integer({ description: 'differences that remain' }),
    kinds: DifferenceCounts('the number of differences of each kind; kinds without one are omitted'),
    resolved: DifferenceCounts(
      'what differed before the sync pass and no longer after it, by kind: recent changes of the mailbox, and what every ' +
        'pass repairs',
    ),
    sample: Type.Array(
      Type.Object({
        folder_id: Type.String(),
        kind: OneOf(DIFFERENCE_KINDS),
        uid: Type.Integer({ description: 'UID of the message; 0: the difference concerns the folder' }),
      }),
      { description: 'the first differences found' },
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
    unchanged: Type.Integer({ description: 'emails without a change' }),
    changed: Type.Integer({ description: 'emails whose stored content changed' }),
    incomplete: Type.Integer({ description: 'emails whose parsing timed out again' }),
    unreadable: Type.Integer({ description: 'emails whose source is no longer stored' }),
  },
  { $id: 'MailboxReparse' },
);
export type MailboxReparse = Type.Static<typeof MailboxReparse>;

const Side = Type.Object({
  user: Type.Optional(Type.String({ minLength: 1, maxLength: 320 })),
  password: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
  host: Type.String({ minLength: 1, maxLength: 253 }),
  port: Type.Integer({ minimum: 1, maximum: 65535, description: 'TCP port' }),
  encryption: Type.Optional(
    Type.String({ description: '`ssl`/`tls`, `starttls`, `default` (by port) or `none`; not case-sensitive' }),
  ),
});

/** Body of POST /auth/intent. */
export const AuthIntent = Type.Object(
  {
    provider: Type.Literal('imap'),
    credentials: Type.Object({
      user: Type.Optional(Type.String({ minLength: 1, maxLength: 320, description: 'login address' })),
      password: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
      oauth2: Type.Optional(OAuth2Credentials),
      imap: Type.Optional(Side),
      smtp: Type.Optional(Side),
    }),
    config: Type.Optional(
      Type.Object({
        initial_sync_enable: Type.Optional(Type.Boolean({ default: false })),
        initial_sync_days: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 30, default: 30, description: 'days of mail to import' }),
        ),
        history: Type.Optional(
          Type.Union([Type.Literal('all'), Type.Literal('none'), Type.Integer({ minimum: 1, maximum: 36_500 })], {
            default: 'none',
            description:
              'starts an import of older mail (see `createImport`), which follows the initial sync: `all`, or the mail of ' +
              'so many days. On a reconnect it starts one unless an import of the account is unfinished',
          }),
        ),
        folders: Type.Optional(
          Nullable(FolderChoice, 'the folders to store; null: all. On a reconnect, omitted: as before'),
        ),
      }),
    ),
    state: Type.Optional(Type.String({ maxLength: 1000 })),
    account_id: Type.Optional(Type.String()),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  },
  { $id: 'AuthIntent' },
);
export type AuthIntent = Type.Static<typeof AuthIntent>;

/** A request to connect a mailbox; `by_link`: it comes from the holder of a link, who may own no mailbox of the installation. `sign_in`: in place of credentials. */
export type ConnectIntent = AuthIntent & { by_link?: true; sign_in?: SignIn };
