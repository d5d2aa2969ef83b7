import Type from 'typebox';
import { Limit, Offset, OneOf, readDate } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import {
  CreateReplay,
  Replay,
  REPLAY_STATUSES,
  ReplayCount,
  type ReplayFilter,
  ReplayList,
} from '../../contract/runs/replay.ts';
import { getEndpoint } from '../../db/queries/endpoints.ts';
import { countReplayed, createReplay, getReplay, listReplays, type StoredReplay } from '../../db/queries/replays.ts';
import { replayWorkflowId } from '../../workflows/names.ts';
import { checkAccounts } from '../endpoint-rules.ts';
import { existing, Id, responses, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('replay') });

const shown = (replay: StoredReplay): Replay => ({ ...replay, workflow_id: replayWorkflowId(replay.id) });

/** Routes that replay deliveries of an endpoint in bulk. */
export const replayRoutes: Routes = (app, { db, secrets, commands }) => {
  const readScope = async ({ endpoint_id: endpointId, ...filter }: CreateReplay) => {
    const endpoint = existing(await getEndpoint(db, secrets, endpointId), 'endpoint');
    if (!endpoint.enabled)
      throw new ApiError('invalid_parameters', 'endpoint_id names a disabled endpoint: enable it first');
    if (filter.account_ids) await checkAccounts('account_ids', filter.account_ids, db);
    const { since, until } = filter;
    const dates = {
      ...(since === undefined ? {} : { since: readDate(since).toISOString() }),
      ...(until === undefined ? {} : { until: readDate(until).toISOString() }),
    };
    return { endpointId, filter: { ...filter, ...dates } satisfies ReplayFilter };
  };

  app.post(
    '/webhooks/replays',
    {
      config: { reach: 'installation', idempotent: true, reserves: 'replay', audit: 'replay.create' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'createReplay',
        summary: 'Replay deliveries of an endpoint',
        description:
          'Starts a job that repeats the matching deliveries, with the same ids and bytes, in the order in which they were ' +
          'recorded, each with a new retry schedule. Live events take precedence. Without `status`, delivered ones are ' +
          'repeated too; pending deliveries, test events and deliveries of another running replay are excluded. The job ' +
          'survives restarts. Returns 400 if the endpoint is disabled.',
        body: CreateReplay,
        response: responses('The job', Replay, 'not_found', 'already_exists'),
      },
    },
    async ({ body, reservedId: id }) => {
      // a call that is repeated finds its own, whatever the endpoint is now
      if (!(await getReplay(db, id))) await createReplay(db, { id, ...(await readScope(body)) });
      const replay = existing(await getReplay(db, id), 'replay');
      if (replay.status === 'running') await commands.startReplay({ id, endpointId: replay.endpoint_id });
      return shown(replay);
    },
  );

  app.post(
    '/webhooks/replays/count',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'countReplay',
        summary: 'Count the deliveries of a replay',
        description: 'Returns how many deliveries a replay with this body would repeat. It changes nothing.',
        body: CreateReplay,
        response: responses('The count', ReplayCount, 'not_found'),
      },
    },
    async ({ body }) => ({ object: 'ReplayCount' as const, total: await countReplayed(db, await readScope(body)) }),
  );

  app.get(
    '/webhooks/replays',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'listReplays',
        summary: 'List replays',
        description: 'Returns running and finished replays.',
        querystring: Type.Object({
          endpoint_id: Type.Optional(Type.String({ description: '`we_…`' })),
          status: Type.Optional(OneOf(REPLAY_STATUSES, { description: 'replays with this status' })),
          offset: Offset,
          limit: Limit(),
        }),
        response: responses('Replays, newest first', ReplayList),
      },
    },
    async ({ query }) => {
      const filter = { endpointId: query.endpoint_id, status: query.status };
      const { data, hasMore } = await listReplays(db, filter, query);
      return { object: 'Replays', data: data.map(shown), has_more: hasMore };
    },
  );

  app.get(
    '/webhooks/replays/:id',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'getReplay',
        summary: 'Get a replay',
        description: 'Returns the replay and the progress of its deliveries.',
        params: Params,
        response: responses('The job and its counts', Replay, 'not_found'),
      },
    },
    async ({ params }) => shown(existing(await getReplay(db, params.id), 'replay')),
  );

  app.post(
    '/webhooks/replays/:id/cancel',
    {
      config: { reach: 'installation', audit: 'replay.cancel' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'cancelReplay',
        summary: 'Cancel a replay',
        description:
          'Queues no further deliveries, and restores the previous status of those that are queued but not attempted. ' +
          'Deliveries already attempted keep their retry schedule. A finished replay does not change.',
        params: Params,
        response: responses('The job', Replay, 'not_found'),
      },
    },
    async ({ params }) => {
      existing(await getReplay(db, params.id), 'replay');
      await commands.cancelReplay(params.id);
      return shown(existing(await getReplay(db, params.id), 'replay'));
    },
  );
};
