import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf, Success } from './common.ts';
import { FolderChoice, MailboxConfig } from './mailbox-config.ts';
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
    status: OneOf(INITIAL_SYNC_STATUSES, {
      description: 'how far it is; `completed` is final, a reconnect restarts a failed one',
    }),
    started_at: Nullable(DateTime('null: not started')),
    completed_at: Nullable(DateTime('when it completed or failed; null: not yet')),
    days: Type.Integer({
      minimum: 1,
      maximum: 30,
      description: 'days of mail to import, counted back from the connect',
    }),
    imported: Type.Integer({ description: 'emails imported so far' }),
  },
  { $id: 'InitialSync', description: 'the import of the last days of mail when a mailbox is connected' },
);
export type InitialSync = Type.Static<typeof InitialSync>;

const ENCRYPTION = '`SSL`: implicit TLS; `STARTTLS`: an upgrade that is required; `NONE`: no TLS';
const HOST = 'name or IP address of the server';

const MailParams = Type.Object(
  {
    imap_host: Type.String({ description: HOST }),
    imap_port: Type.Integer({ description: 'TCP port' }),
    imap_user: Type.String({ description: 'login name at the IMAP server' }),
    imap_encryption: OneOf(ENCRYPTIONS, { description: ENCRYPTION }),
    smtp_host: Type.String({ description: HOST }),
    smtp_port: Type.Integer({ description: 'TCP port' }),
    smtp_user: Type.String({ description: 'login name at the SMTP server' }),
    smtp_encryption: OneOf(ENCRYPTIONS, { description: ENCRYPTION }),
  },
  { description: 'servers and logins, without passwords' },
);

export const UserId = Type.String({ description: 'lower-cased login address' });
export const AccountName = Type.String({ description: 'name that was given on the connect, or the address' });
export const Provider = Type.Literal('imap', { description: 'always `imap`: IMAP with SMTP' });
const AccountStatusName = OneOf(ACCOUNT_STATUSES, {
  description:
    '`running`: the mailbox is followed; `errored`: three connections in a row failed, it is retried; `disconnected`: the ' +
    'provider refused the login, reconnect it',
});

export const Account = Type.Object(
  {
    object: ObjectName('Account'),
    id: IdOf('account'),
    user_id: UserId,
    name: AccountName,
    provider: Provider,
    status: AccountStatusName,
    status_detail: Type.String({
      description:
        'reason for the status, as the mail provider states it; of `running`: why it is not in sync, or that its OAuth app is failing; ' +
        'empty: nothing to say',
    }),
    is_locked: Type.Boolean({ description: 'always false' }),
    metadata: Type.Record(Type.String(), Type.String(), {
      description: 'your own values by your own keys; empty at first',
    }),
    connection_params: Type.Object({ mail: MailParams }, { description: 'how the mailbox is reached' }),
    created_at: CreatedAt,
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
    watch: Type.Optional(Type.Boolean({ description: 'false: the mailbox is not followed; see `syncMailbox`' })),
  },
  { $id: 'Account', description: 'a connected mailbox' },
);
export type Account = Type.Static<typeof Account>;

export const AccountList = ListOf('Accounts', Account);
export const AccountDeleted = Type.Object(
  {
    object: ObjectName('AccountDeleted'),
    id: IdOf('account'),
    success: Success,
    revoked: Type.Optional(
      Type.Boolean({ description: 'only with `revoke`: whether the provider took the sign-in back' }),
    ),
  },
  { $id: 'AccountDeleted', description: 'the account was removed' },
);

const JobStatus = OneOf(['running', 'completed'], { description: '`running`: repeat the call to keep waiting' });

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
    object: ObjectName('MailboxVerification'),
    account_id: IdOf('account'),
    status: JobStatus,
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
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
        folder_id: IdOf('folder'),
        kind: OneOf(DIFFERENCE_KINDS, { description: 'a kind of `kinds`' }),
        uid: Type.Integer({ description: 'UID of the message; 0: the difference concerns the folder' }),
      }),
      { description: 'the first differences found' },
    ),
  },
  { $id: 'MailboxVerification', description: 'the comparison of the store with a mailbox' },
);
export type MailboxVerification = Type.Static<typeof MailboxVerification>;

export const MailboxSync = Type.Object(
  {
    object: ObjectName('MailboxSync'),
    account_id: IdOf('account'),
    status: JobStatus,
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
  },
  { $id: 'MailboxSync', description: 'a sync of a mailbox' },
);
export type MailboxSync = Type.Static<typeof MailboxSync>;

export const MailboxReparse = Type.Object(
  {
    object: ObjectName('MailboxReparse'),
    account_id: IdOf('account'),
    status: JobStatus,
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    unchanged: Type.Integer({ description: 'emails without a change' }),
    changed: Type.Integer({ description: 'emails whose stored content changed' }),
    incomplete: Type.Integer({ description: 'emails whose parsing timed out again' }),
    unreadable: Type.Integer({ description: 'emails whose source is no longer stored' }),
  },
  { $id: 'MailboxReparse', description: 'emails of an account, by the result of parsing them again' },
);
export type MailboxReparse = Type.Static<typeof MailboxReparse>;

const Side = (description: string) =>
  Type.Object(
    {
      user: Type.Optional(
        Type.String({ minLength: 1, maxLength: 320, description: 'login name; default: `user` of the credentials' }),
      ),
      password: Type.Optional(
        Type.String({ minLength: 1, maxLength: 4096, description: 'default: `password` of the credentials' }),
      ),
      host: Type.String({ minLength: 1, maxLength: 253, description: HOST }),
      port: Type.Integer({ minimum: 1, maximum: 65535, description: 'TCP port' }),
      encryption: Type.Optional(
        Type.String({ description: '`ssl`/`tls`, `starttls`, `default` (by port) or `none`; not case-sensitive' }),
      ),
    },
    { description },
  );

/** Body of POST /auth/intent. */
export const AuthIntent = Type.Object(
  {
    provider: Provider,
    credentials: Type.Object(
      {
        user: Type.Optional(Type.String({ minLength: 1, maxLength: 320, description: 'login address' })),
        password: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 4096,
            description: 'password or app password; omitted on a reconnect: the stored one',
          }),
        ),
        oauth2: Type.Optional(OAuth2Credentials),
        imap: Type.Optional(Side('IMAP server; omitted: discovered from the address')),
        smtp: Type.Optional(Side('SMTP server; omitted: discovered from the address')),
      },
      { description: 'login and servers' },
    ),
    config: Type.Optional(MailboxConfig),
    state: Type.Optional(
      Type.String({ maxLength: 1000, description: 'returned in `account.add` or `account.reconnect`' }),
    ),
    account_id: Type.Optional(
      IdOf('account', 'to reconnect; omitted: a mailbox that is connected is found by its server and login'),
    ),
    name: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'name of the account; omitted: its address' }),
    ),
  },
  { $id: 'AuthIntent', description: 'a mailbox to connect' },
);
export type AuthIntent = Type.Static<typeof AuthIntent>;

/** A request to connect a mailbox; `by_link`: it comes from the holder of a link, who may own no mailbox of the installation. `sign_in`: in place of credentials. */
export type ConnectIntent = AuthIntent & { by_link?: true; sign_in?: SignIn };
