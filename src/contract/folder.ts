import Type from 'typebox';
import { ListOf, Nullable, OneOf } from './common.ts';

/** Roles in the order in which lists show them; UNKNOWN last. */
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
    object: Type.Literal('Folder'),
    id: Type.String({ description: '`fld_…`; stays the same when the folder is renamed' }),
    account_id: Type.String(),
    name: Type.String({ description: 'last part of the path, decoded' }),
    role: OneOf(FOLDER_ROLES),
    parent_id: Nullable(Type.String()),
    total_count: Type.Integer(),
    unread_count: Type.Integer(),
  },
  { $id: 'Folder' },
);
export type Folder = Type.Static<typeof Folder>;

export const FolderList = ListOf('Folders', Folder);
