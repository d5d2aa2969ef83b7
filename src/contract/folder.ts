import Type from 'typebox';
import { IdOf, ListOf, Nullable, ObjectName, OneOf } from './common.ts';

/** Folder roles, in the order in which lists sort them. */
export const FOLDER_ROLES = [
  'INBOX',
  'SENT',
  'DRAFTS',
  'TRASH',
  'SPAM',
  'ARCHIVE',
  'ALL',
  'IMPORTANT',
  'STARRED',
  'UNKNOWN',
] as const;
export type FolderRole = (typeof FOLDER_ROLES)[number];

export const Folder = Type.Object(
  {
    object: ObjectName('Folder'),
    id: Type.String({ description: '`fld_…`; does not change when the folder is renamed' }),
    account_id: IdOf('account'),
    name: Type.String({ description: 'last part of the path, decoded' }),
    role: OneOf(FOLDER_ROLES, { description: 'by its special use, or else by its name; `UNKNOWN`: none' }),
    parent_id: Nullable(Type.String({ description: '`fld_…`; null: top level' })),
    total_count: Type.Integer({ description: 'messages in the folder' }),
    unread_count: Type.Integer({ description: 'messages without `\\Seen`' }),
  },
  { $id: 'Folder', description: 'a folder of a mailbox' },
);
export type Folder = Type.Static<typeof Folder>;

const FolderName = Type.String({
  minLength: 1,
  maxLength: 255,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
  description: "must not contain the provider's hierarchy separator or control characters",
});

/** Body of POST `/{account_id}/folders`. */
export const CreateFolder = Type.Object(
  {
    name: FolderName,
    parent_id: Type.Optional(Nullable(Type.String({ description: '`fld_…`; null or omitted: top level' }))),
  },
  { $id: 'CreateFolder', description: 'a folder to create' },
);
export type CreateFolder = Type.Static<typeof CreateFolder>;

/** Body of PATCH `/{account_id}/folders/{folder_id}`; omitted fields do not change. */
export const UpdateFolder = Type.Object(
  {
    name: Type.Optional(FolderName),
    parent_id: Type.Optional(Nullable(Type.String({ description: '`fld_…`; null: top level' }))),
  },
  { $id: 'UpdateFolder', description: 'changes of a folder; omitted fields do not change' },
);
export type UpdateFolder = Type.Static<typeof UpdateFolder>;

export const FolderList = ListOf('Folders', Folder);
