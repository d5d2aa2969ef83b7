import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf } from '../common.ts';
import { FOLDER_ROLES } from '../folder.ts';

export const IMPORT_STATUSES = ['queued', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled'] as const;
export type ImportStatus = (typeof IMPORT_STATUSES)[number];

const FOLDER_DESCRIPTION = `\`fld_…\` ids and roles (${FOLDER_ROLES.join(', ')})`;
const SINCE = 'messages that arrived in the mailbox (INTERNALDATE) at or after this time';
const UNTIL = 'messages that arrived in the mailbox (INTERNALDATE) before this time';

const Order = OneOf(['newest_first'], {
  description: 'INBOX first, then folder by folder, the newest message of each first',
});

/** Which mail to import; without fields, all that the mailbox holds. */
export const CreateImport = Type.Object(
  {
    since: Type.Optional(DateTime(SINCE)),
    until: Type.Optional(DateTime(UNTIL)),
    folders: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
        minItems: 1,
        maxItems: 1000,
        description: `${FOLDER_DESCRIPTION}; without it, all folders`,
      }),
    ),
    order: Type.Optional(Order),
  },
  { $id: 'CreateImport', description: 'which mail to import; without fields, all that the mailbox holds' },
);
export type CreateImport = Type.Static<typeof CreateImport>;

/** How far an import is. Messages that were stored before it began do not count. */
export const ImportProgress = Type.Object(
  {
    folders_known: Type.Integer({ description: 'folders to read' }),
    folders_done: Type.Integer({ description: 'folders that were read completely' }),
    messages_known: Type.Integer({ description: 'messages to read in the folders that were counted so far' }),
    messages_done: Type.Integer({ description: 'messages that were read' }),
    messages_left: Type.Integer({ description: 'messages that are left to read' }),
  },
  {
    $id: 'ImportProgress',
    description: 'how far an import is; messages that were stored before it began do not count',
  },
);
export type ImportProgress = Type.Static<typeof ImportProgress>;

/** A run that imports mail from before the connect. */
export const Import = Type.Object(
  {
    object: ObjectName('Import'),
    id: Type.String({ description: '`imp_…`' }),
    account_id: IdOf('account'),
    status: OneOf(IMPORT_STATUSES, {
      description:
        '`queued`: another import of the account comes first; `waiting`: for the next attempt, `reason` says why; ' +
        '`completed`, `failed` and `cancelled` are final, except that a failed one can be continued',
    }),
    reason: Nullable(Type.String(), 'why it is queued, waits or failed; null: no reason'),
    next_attempt_at: Nullable(DateTime('when it is retried; null: no retry is due')),
    since: Nullable(DateTime(SINCE), 'null: no limit'),
    until: Nullable(DateTime(UNTIL), 'null: no limit'),
    folders: Nullable(Type.Array(Type.String(), { description: FOLDER_DESCRIPTION }), 'null: all folders'),
    order: Order,
    progress: ImportProgress,
    imported: Type.Integer({ description: 'emails that were new to the store' }),
    messages_per_second: Nullable(
      Type.Number(),
      'messages read per second since it was last started; null: not running',
    ),
    workflow_id: Type.Optional(
      Type.String({ description: 'the workflow in the Temporal UI; events do not have this field' }),
    ),
    created_at: CreatedAt,
    started_at: Nullable(DateTime('when it was first started; null: not started')),
    completed_at: Nullable(DateTime('when it completed, failed or was cancelled; null: not yet')),
  },
  { $id: 'Import', description: 'a run that imports mail from before the connect' },
);
export type Import = Type.Static<typeof Import>;

export const ImportList = ListOf('Imports', Import);
