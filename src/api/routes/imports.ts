import Type from 'typebox';
import { Limit, Offset, OneOf, readOptionalDate } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { FOLDER_ROLES } from '../../contract/folder.ts';
import { CreateImport, Import, IMPORT_STATUSES, ImportList } from '../../contract/runs/import.ts';
import {
  cancelImport,
  continueImport,
  countUnfinished,
  createImport,
  pauseImport,
} from '../../db/coordination/import-state.ts';
import type { Db } from '../../db/driver/client.ts';
import { getAccount } from '../../db/queries/accounts.ts';
import { getFolder } from '../../db/queries/folders.ts';
import { getImport, listImports } from '../../db/queries/imports.ts';
import { importHistoryWorkflowId } from '../../workflows/names.ts';
import { askedAccounts } from '../http/access.ts';
import { AccountIds, optionalItems } from './mail/email-query.ts';
import { existing, Id, responses, responsesWith, type Routes } from './route.ts';

/** Imports of one account that may be unfinished at a time; they run one after the other. */
const MAX_UNFINISHED = 20;

const AccountParams = Type.Object({ id: Id('account') });
const Params = Type.Object({ id: Id('account'), import_id: Id('import') });

const shown = (row: Import | undefined): Import => {
  const found = existing(row, 'import');
  return { ...found, workflow_id: importHistoryWorkflowId(found.id) };
};

/** Routes that import older mail. */
export const importRoutes: Routes = (app, { db, commands }) => {
  app.post(
    '/accounts/:id/imports',
    {
      config: { reach: 'account', idempotent: true, reserves: 'import', audit: 'import.create' },
      schema: {
        tags: ['Imports'],
        operationId: 'createImport',
        summary: 'Import older mail',
        description:
          'Starts a run that stores mail from before the connect, newest first: all of it, or that of a time window or of some ' +
          'folders. Messages that are stored are not fetched again. Imported mail emits no `email.new`; afterwards it is like ' +
          'any other mail. New mail is received while it runs. The imports of an account run one after the other, after its ' +
          'initial sync. A run survives restarts; it gives up after five failures in a row without progress. ' +
          'With `retention_days`, older emails are deleted again after 24 hours. Returns 409 when 20 imports of the account ' +
          'are unfinished.',
        params: AccountParams,
        body: CreateImport,
        response: responsesWith(201, 'The import', Import, 'not_found', 'already_exists'),
      },
    },
    async ({ params: { id: accountId }, body, reservedId: id }, reply) => {
      existing(await getAccount(db, accountId), 'account');
      const [since, until] = [readOptionalDate(body.since) ?? null, readOptionalDate(body.until) ?? null];
      if (since && until && since >= until) throw new ApiError('invalid_parameters', 'since must be before until');
      await checkFolders(db, accountId, body.folders ?? []);
      // a call that is repeated finds its own
      if (!(await getImport(db, accountId, id))) {
        if ((await countUnfinished(db, accountId)) >= MAX_UNFINISHED) {
          throw new ApiError('already_exists', `${MAX_UNFINISHED} imports of this account are unfinished`);
        }
        await createImport(db, { id, accountId, since, until, folders: body.folders ?? null });
      }
      await commands.wakeImport({ id, accountId });
      return reply.code(201).send(shown(await getImport(db, accountId, id)));
    },
  );

  app.get(
    '/accounts/:id/imports',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Imports'],
        operationId: 'listImports',
        summary: 'List imports',
        description: 'Returns unfinished and finished imports of an account.',
        params: AccountParams,
        querystring: Type.Object({
          status: Type.Optional(OneOf(IMPORT_STATUSES, { description: 'imports with this status' })),
          offset: Offset,
          limit: Limit(),
        }),
        response: responses('Imports, newest first', ImportList, 'not_found'),
      },
    },
    async ({ params: { id: accountId }, query }) => {
      existing(await getAccount(db, accountId), 'account');
      const { data, hasMore } = await listImports(db, [accountId], query);
      return { object: 'Imports', data: data.map(shown), has_more: hasMore };
    },
  );

  app.get(
    '/imports',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Imports'],
        operationId: 'listImportsOfAccounts',
        summary: 'List imports of several accounts',
        description: 'Returns imports of several accounts in one order.',
        querystring: Type.Object({
          account_ids: AccountIds,
          unfinished: Type.Optional(Type.Boolean({ description: 'imports that have not ended, or have' })),
          offset: Offset,
          limit: Limit(),
        }),
        response: responses('Imports, newest first', ImportList),
      },
    },
    async ({ query: { account_ids, ...query }, caller }) => {
      const accountIds = await askedAccounts(caller, optionalItems(account_ids), db);
      const { data, hasMore } = await listImports(db, accountIds, query);
      return { object: 'Imports', data: data.map(shown), has_more: hasMore };
    },
  );

  app.get(
    '/accounts/:id/imports/:import_id',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Imports'],
        operationId: 'getImport',
        summary: 'Get an import',
        description: 'Returns the import with its progress.',
        params: Params,
        response: responses('The import', Import, 'not_found'),
      },
    },
    async ({ params: { id: accountId, import_id: id } }) => {
      existing(await getAccount(db, accountId), 'account');
      return shown(await getImport(db, accountId, id));
    },
  );

  for (const { verb, summary, description, change } of CHANGES) {
    app.post(
      `/accounts/:id/imports/:import_id/${verb}`,
      {
        config: { reach: 'account', audit: `import.${verb}` },
        schema: {
          tags: ['Imports'],
          operationId: `${verb}Import`,
          summary,
          description,
          params: Params,
          response: responses('The import', Import, 'not_found'),
        },
      },
      async ({ params: { id: accountId, import_id: id } }) => {
        existing(await getAccount(db, accountId), 'account');
        existing(await getImport(db, accountId, id), 'import');
        const changed = await change(db, { id, accountId });
        await commands.wakeImport({ id, accountId });
        return shown(changed);
      },
    );
  }
};

const CHANGES = [
  {
    verb: 'pause',
    summary: 'Pause an import',
    description:
      'Stops the import until it is continued: nothing further is stored once this call has returned. An import that has ' +
      'ended does not change.',
    change: pauseImport,
  },
  {
    verb: 'continue',
    summary: 'Continue an import',
    description:
      'Continues a paused or failed import where it stopped. An import that is under way, completed or cancelled does not change.',
    change: continueImport,
  },
  {
    verb: 'cancel',
    summary: 'Cancel an import',
    description: 'Ends the import. What it has stored stays. A completed import does not change.',
    change: cancelImport,
  },
] as const;

/** @throws ApiError invalid_parameters for what is neither a role nor an id; not_found for an unknown id */
async function checkFolders(db: Db, accountId: string, folders: readonly string[]): Promise<void> {
  const isRole = (folder: string) => (FOLDER_ROLES as readonly string[]).includes(folder);
  for (const folder of folders) {
    if (isRole(folder)) continue;
    if (!folder.startsWith('fld_')) throw new ApiError('invalid_parameters', `folders: ${folder} is no role and no id`);
    existing(await getFolder(db, accountId, folder), 'folder');
  }
}
