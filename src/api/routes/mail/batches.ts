import Type from 'typebox';
import {
  BATCH_RESULTS,
  EmailBatch,
  EmailBatchResult,
  EmailBatchResultList,
  MAX_BATCH,
} from '../../../contract/email.ts';
import { Cursor, Limit, MAX_LIMIT, OneOf } from '../../../contract/common.ts';
import { ApiError } from '../../../contract/errors.ts';
import { createBatch, getBatch, idsOfFilter, listBatchResults, type StoredBatch } from '../../../db/queries/batches.ts';
import { type EmailFilter, searched } from '../../../db/queries/mail/email-page.ts';
import type { Db } from '../../../db/driver/client.ts';
import { folderExists, listFolders } from '../../../db/queries/folders.ts';
import { batchWorkflowId } from '../../../workflows/names.ts';
import { AccountParams, existing, Id, requireWritableUnlessMade, responses, type Routes } from '../route.ts';
import { EmailQuery, toFilter } from './email-query.ts';
import { UpdateEmail, updateOf } from './emails.ts';

const { meta_only: _, fields: __, limit: ___, cursor: ____, ...FILTERS } = EmailQuery.properties;

const CreateBatch = Type.Object({
  ids: Type.Optional(
    Type.Array(Type.String({ maxLength: 64, description: '`email_…`' }), {
      minItems: 1,
      maxItems: MAX_BATCH,
      description: 'the emails to change; omitted: those of `filter`',
    }),
  ),
  filter: Type.Optional(
    Type.Object(
      {
        ...FILTERS,
        folder_id: Type.Optional(Type.String({ maxLength: 64, description: '`fld_…`: emails in this folder' })),
      },
      {
        minProperties: 1,
        // a mistyped condition would change emails that it was to exclude
        additionalProperties: false,
        description:
          'as in the list of emails, with at least one condition, and without an unknown key, an empty condition or an unknown ' +
          'folder to exclude; it chooses at most 10,000, when the call is accepted',
      },
    ),
  ),
  change: Type.Object(
    { ...UpdateEmail.properties, trash: Type.Optional(Type.Boolean({ description: 'true: moves them to Trash' })) },
    { description: 'as an update of one email, or `trash`' },
  ),
});
type CreateBatch = Type.Static<typeof CreateBatch>;

const BatchParams = Type.Object({ account_id: Id('account'), batch_id: Id('batch') });
const ResultsQuery = Type.Object({
  status: Type.Optional(OneOf(BATCH_RESULTS, { description: 'emails with this result' })),
  limit: Limit(MAX_LIMIT),
  cursor: Type.Optional(Cursor),
});

const shown = (batch: StoredBatch): EmailBatch => ({ ...batch, workflow_id: batchWorkflowId(batch.id) });

/** Routes that change many emails at once. */
export const batchRoutes: Routes = (app, { db, pool, commands, cursors }) => {
  app.post(
    '/:account_id/emails/batch',
    {
      config: { idempotent: true, reserves: 'batch' },
      schema: {
        tags: ['Emails'],
        operationId: 'createEmailBatch',
        summary: 'Update many emails',
        description:
          'Starts a job that makes one change of up to 10,000 emails: of those in `ids`, or of those that pass `filter` now. ' +
          'It responds before they are changed. The job survives restarts and changes each email once, with one event each, ' +
          'as a call for that email alone would; `batches/{batch_id}` has its progress, and `results` the result of each. While ' +
          'the mail server cannot be reached the job waits; after an hour of that, emails that are pending fail.',
        params: AccountParams,
        body: CreateBatch,
        response: responses('The job', EmailBatch, 'not_found', 'invalid_credentials', 'already_exists'),
      },
    },
    async (request) => {
      const { body, reservedId: id } = request;
      const { account_id: accountId } = request.params;
      const change = changeOf(body);
      await requireWritableUnlessMade(db, request, accountId, () => getBatch(db, accountId, id));
      if (change.folderId !== undefined) existing(await folderExists(pool, accountId, change.folderId), 'folder');
      // a call that is repeated keeps the emails that it chose first
      if (!(await getBatch(db, accountId, id))) {
        const emailIds = body.ids
          ? [...new Set(body.ids)]
          : await idsOfFilter(pool, accountId, await filterOf(db, accountId, body));
        await createBatch(db, { id, accountId, change, emailIds });
      }
      const batch = existing(await getBatch(db, accountId, id), 'batch');
      if (batch.status === 'running') await commands.startBatch({ id, accountId });
      return shown(batch);
    },
  );

  app.get(
    '/:account_id/batches/:batch_id',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'getEmailBatch',
        summary: 'Get a change of many emails',
        description: 'Returns the job and its progress. It is stored for 30 days.',
        params: BatchParams,
        response: responses('The job and its counts', EmailBatch, 'not_found'),
      },
    },
    async ({ params }) => shown(existing(await getBatch(db, params.account_id, params.batch_id), 'batch')),
  );

  app.get(
    '/:account_id/batches/:batch_id/results',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'listEmailBatchResults',
        summary: 'List the results of a change of many emails',
        description: 'Returns the result of each email, in the order of `ids`, or newest first.',
        params: BatchParams,
        querystring: ResultsQuery,
        response: responses('The results', EmailBatchResultList, 'not_found'),
      },
    },
    async ({ params: { account_id: accountId, batch_id: id }, query }) => {
      existing(await getBatch(db, accountId, id), 'batch');
      const list = { name: `Results ${id}`, accountId, query };
      const after = Number(cursors.read(list, query.cursor)?.id ?? 0);
      const { data, next } = await listBatchResults(db, id, { status: query.status, after, limit: query.limit });
      const cursor = cursors.write(list, next === null ? null : { date: new Date(0), id: String(next) });
      return {
        object: 'EmailBatchResults' as const,
        data: data satisfies EmailBatchResult[],
        has_more: next !== null,
        cursor,
      };
    },
  );
};

/**
 * A condition that is empty, or excludes an unknown folder, would choose emails that it was to exclude; a folder of another account has emails of that one.
 * @throws ApiError invalid_parameters, not_found
 */
async function filterOf(db: Db, accountId: string, { filter = {} }: CreateBatch): Promise<EmailFilter> {
  const { folder_id: folderId, ...conditions } = filter;
  for (const [name, value] of Object.entries(conditions)) {
    const condition: unknown = Object.values(searched(toFilter({ [name]: value })))[0] ?? '';
    if (String(condition).trim() !== '') continue;
    const fields = [{ path: `filter.${name}`, message: 'is empty' }];
    throw new ApiError('invalid_parameters', `filter.${name} is empty`, { fields });
  }
  const chosen = toFilter(conditions, folderId);
  const named = [...(chosen.excludeFolders ?? []), ...(folderId === undefined ? [] : [folderId])];
  if (named.length === 0) return chosen;
  const known = new Set((await listFolders(db, accountId)).map(({ id }) => id));
  existing(named.every((id) => known.has(id)) || undefined, 'folder');
  return chosen;
}

/** @throws ApiError invalid_parameters */
function changeOf({ ids, filter, change: { trash, ...change } }: CreateBatch) {
  if ((ids === undefined) === (filter === undefined)) {
    throw new ApiError('invalid_parameters', 'one of ids and filter is required, and not both');
  }
  const update = updateOf(change);
  if (trash && update.folderId !== undefined) {
    throw new ApiError('invalid_parameters', 'change.trash and change.folders_ids cannot be combined');
  }
  if (!trash && !update.flags && update.folderId === undefined) {
    throw new ApiError('invalid_parameters', 'change has nothing to change');
  }
  return { ...update, ...(trash ? { trash } : {}) };
}
