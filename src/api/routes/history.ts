import Type from 'typebox';
import { Cursor, Limit, OneOf } from '../../contract/common.ts';
import { History, RunList } from '../../contract/history.ts';
import { getAccount } from '../../db/queries/accounts.ts';
import { readHistory } from '../../db/queries/history.ts';
import { sendWorkflowId } from '../../workflows/names.ts';
import { EmailParams } from './mail/emails.ts';
import { existing, Id, responses, type RouteDeps, type Routes } from './route.ts';

const AccountIdParams = Type.Object({ id: Id('account') });
const PageQuery = Type.Object({ limit: Limit(50), cursor: Type.Optional(Cursor) });
const HistoryQuery = Type.Object({
  ...PageQuery.properties,
  order: Type.Optional(OneOf(['asc', 'desc'], { description: 'default: `asc`, oldest first. `desc`: newest first' })),
});
type HistoryQuery = Type.Static<typeof HistoryQuery>;

const KINDS =
  'Oldest first, unless `order` says otherwise. `kind` is `send` (the API sent the email), `ingested`, `changed`, `event` (another event) or `delivery` ' +
  '(of an event to an endpoint, with its attempts). `limit` counts events.';

/** Routes of the history of an email or account, and of the workflow executions of an account. */
export const historyRoutes: Routes = (app, deps) => {
  app.get(
    '/:account_id/emails/:email_id/history',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'getEmailHistory',
        summary: "Get an email's history",
        description: `${KINDS} Deleted emails are included while their events are stored (30 days).`,
        params: EmailParams,
        querystring: HistoryQuery,
        response: responses('The history', History, 'not_found'),
      },
    },
    async ({ params, query }) => {
      const { account_id: accountId, email_id: objectId } = params;
      return existing(await historyOf(deps, { accountId, objectId }, query), 'email');
    },
  );

  app.get(
    '/accounts/:id/history',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Accounts'],
        operationId: 'getAccountHistory',
        summary: "Get an account's history",
        description: `${KINDS} Includes events of the account, not of its emails.`,
        params: AccountIdParams,
        querystring: HistoryQuery,
        response: responses('The history', History, 'not_found'),
      },
    },
    async ({ params: { id }, query }) =>
      existing(await historyOf(deps, { accountId: id, objectId: id }, query), 'account'),
  );

  app.get(
    '/accounts/:id/runs',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Accounts'],
        operationId: 'listRuns',
        summary: "List an account's workflow executions",
        description:
          'Returns executions from Temporal, newest first, including closed ones within its retention period. Returns 503 ' +
          'while Temporal is unavailable.',
        params: AccountIdParams,
        querystring: PageQuery,
        response: responses('The executions', RunList, 'not_found'),
      },
    },
    async ({ params, query }) => {
      const { id } = existing(await getAccount(deps.db, params.id), 'account');
      const list = { name: 'runs', accountId: id, query: {} };
      const after = deps.cursors.read(list, query.cursor)?.id ?? null;
      const { runs, next } = await deps.commands.listRuns(id, { limit: query.limit, after });
      const cursor = deps.cursors.write(list, next === null ? null : { date: new Date(0), id: next });
      return { object: 'Runs', data: runs, has_more: next !== null, cursor };
    },
  );
};

async function historyOf(
  { pool, cursors }: RouteDeps,
  { accountId, objectId }: { accountId: string; objectId: string },
  { limit, cursor, order }: HistoryQuery,
) {
  const newestFirst = order === 'desc';
  const list = { name: 'history', accountId, query: { objectId, ...(newestFirst ? { order } : {}) } };
  const position = cursors.read(list, cursor);
  const after = position && Number(position.id);
  const page = await readHistory(pool, { accountId, objectId, limit, newestFirst, after, sendWorkflowId });
  if (!page && !position) return undefined;
  const { entries = [], next = null } = page ?? {};
  return {
    object: 'History' as const,
    data: entries,
    has_more: next !== null,
    cursor: cursors.write(list, next && { date: next.date, id: String(next.sequence) }),
  };
}
