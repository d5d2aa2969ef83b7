import Type from 'typebox';
import { CreateFolder, Folder, FolderList, UpdateFolder } from '../../../contract/folder.ts';
import { getFolder, listFolders } from '../../../db/queries/folders.ts';
import {
  AccountParams,
  responses,
  responsesWith,
  existing,
  Id,
  requireWritable,
  requireWritableUnlessMade,
  type Routes,
} from '../route.ts';

/** Routes that read folders. */
export const folderRoutes: Routes = (app, { db }) => {
  app.get(
    '/:account_id/folders',
    {
      schema: {
        tags: ['Folders'],
        operationId: 'listFolders',
        summary: 'List folders',
        description: 'Returns all folders in one page: INBOX, then other folders with a role, then the rest by name.',
        params: AccountParams,
        response: responses('All folders', FolderList, 'not_found'),
      },
    },
    async ({ params }) => ({ object: 'Folders', data: await listFolders(db, params.account_id), has_more: false }),
  );

  app.get(
    '/:account_id/folders/:folder_id',
    {
      schema: {
        tags: ['Folders'],
        operationId: 'getFolder',
        summary: 'Get a folder',
        description: 'Returns the folder with its role and message counts.',
        params: Type.Object({ account_id: Id('account'), folder_id: Id('folder') }),
        response: responses('The folder', Folder, 'not_found'),
      },
    },
    async ({ params }) => existing(await getFolder(db, params.account_id, params.folder_id), 'folder'),
  );
};

const FolderParams = Type.Object({ account_id: Id('account'), folder_id: Id('folder') });

const ERRORS = ['invalid_credentials', 'not_found', 'already_exists', 'provider_rejected', 'provider_error'] as const;

/** Routes that change folders; each responds after the provider has confirmed the change. */
export const folderChangeRoutes: Routes = (app, { db, commands }) => {
  app.post(
    '/:account_id/folders',
    {
      config: { idempotent: true, reserves: 'folder' },
      schema: {
        tags: ['Folders'],
        operationId: 'createFolder',
        summary: 'Create a folder',
        description: 'Creates a folder in the mailbox and responds when the provider has confirmed it.',
        params: AccountParams,
        body: CreateFolder,
        response: responsesWith(201, 'The folder', Folder, ...ERRORS),
      },
    },
    async (request, reply) => {
      const { body, reservedId } = request;
      const { account_id } = request.params;
      await requireWritableUnlessMade(db, request, account_id, () => getFolder(db, account_id, reservedId));
      await commands.createFolder(account_id, reservedId, { name: body.name, parentId: body.parent_id ?? null });
      return reply.code(201).send(existing(await getFolder(db, account_id, reservedId), 'folder'));
    },
  );

  app.patch(
    '/:account_id/folders/:folder_id',
    {
      schema: {
        tags: ['Folders'],
        operationId: 'renameOrMoveFolder',
        summary: 'Rename or move a folder',
        description:
          'The id of the folder does not change, and its subfolders move with it. A folder with a role cannot be renamed or moved.',
        params: FolderParams,
        body: UpdateFolder,
        response: responses('The folder', Folder, ...ERRORS),
      },
    },
    async ({ params: { account_id, folder_id }, body }) => {
      await requireWritable(db, account_id);
      existing(await getFolder(db, account_id, folder_id), 'folder');
      await commands.changeFolder(account_id, folder_id, body);
      return existing(await getFolder(db, account_id, folder_id), 'folder');
    },
  );

  app.delete(
    '/:account_id/folders/:folder_id',
    {
      schema: {
        tags: ['Folders'],
        operationId: 'deleteFolder',
        summary: 'Delete a folder',
        description:
          'Moves its messages to Trash and its subfolders up one level first. A folder with a role cannot be deleted, nor one with a ' +
          'subfolder that has a role, or that the account would not include one level up. If the call times out with 502, the ' +
          'deletion continues.',
        params: FolderParams,
        response: responsesWith(204, 'The folder is deleted', null, ...ERRORS),
      },
    },
    async ({ params: { account_id, folder_id } }, reply) => {
      await requireWritable(db, account_id);
      existing(await getFolder(db, account_id, folder_id), 'folder');
      await commands.deleteFolder(account_id, folder_id);
      return reply.code(204).send();
    },
  );
};
