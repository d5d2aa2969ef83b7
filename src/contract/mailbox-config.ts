import Type from 'typebox';
import { Nullable } from './common.ts';
import { FOLDER_ROLES } from './folder.ts';

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

/** Days for which mail is stored. */
export const RetentionDays = Nullable(
  Type.Integer({ minimum: 1, maximum: 3650 }),
  'days for which mail is stored, by its `date`; null: as long as it is in the mailbox',
);

/** `config` of a connect, of a link and of a sign-in on another device. */
export const MailboxConfig = Type.Object(
  {
    initial_sync_enable: Type.Optional(Type.Boolean({ default: false, description: 'imports the last days of mail' })),
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
    watch: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'false: no connection is held open, and only `syncMailbox` and the daily verification bring the account in ' +
          'sync. On a reconnect, omitted: as before',
      }),
    ),
    folders: Type.Optional(
      Nullable(FolderChoice, 'the folders to store; null: all. On a reconnect, omitted: as before'),
    ),
    retention_days: Type.Optional(RetentionDays),
  },
  {
    $id: 'MailboxConfig',
    description:
      'what to store of a mailbox, and whether it is followed; omitted: the defaults, on a reconnect as before',
  },
);
export type MailboxConfig = Type.Static<typeof MailboxConfig>;
