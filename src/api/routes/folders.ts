import Type from 'typebox';
import { Folder, FolderList } from '../../contract/folder.ts';
import { getFolder, listFolders } from '../../db/folders.ts';
import { AccountParams, answers, found, Id, type Routes } from './route.ts';

export const folderRoutes: Routes = (app, { db }) => {
  app.get(
    '/:account_id/folders',
    {
      schema: {
        tags: ['Folders'],
        summary: 'List folders',
        description: 'Not paged. INBOX first, then folders with other roles, then by name.',
        params: AccountParams,
        response: answers('All folders', FolderList, 'not_found'),
      },
    },
    async ({ params }) => ({ object: 'Folders', data: await listFolders(db, params.account_id), has_more: false }),
  );

  app.get(
    '/:account_id/folders/:folder_id',
    {
      schema: {
        tags: ['Folders'],
        summary: 'Get a folder',
        params: Type.Object({ account_id: Id('account'), folder_id: Id('folder') }),
        response: answers('The folder', Folder, 'not_found'),
      },
    },
    async ({ params }) => found(await getFolder(db, params.account_id, params.folder_id), 'folder'),
  );
};
