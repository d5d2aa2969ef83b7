import Type from 'typebox';
import { Limit, Offset, OneOf } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { CreateReplay, Replay, REPLAY_STATUSES, ReplayList } from '../../contract/replay.ts';
import { getEndpoint } from '../../db/queries/endpoints.ts';
import { createReplay, getReplay, listReplays } from '../../db/queries/replays.ts';
import { readDate } from '../http/dates.ts';
import { existing, Id, responses, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('replay') });

/** Bulk replays of the delivery log (CONTRACT "Webhooks"). */
export const replayRoutes: Routes = (app, { db, secrets, commands }) => {
  app.post(
    '/webhooks/replays',
    {
      config: { reach: 'installation', idempotent: true, reserves: 'replay', audit: 'replay.create' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'createReplay',
        summary: 'Make deliveries of an endpoint again',
        description:
          'A job that makes the matching deliveries again, with the same ids and bytes, in the order in which they were ' +
          'recorded, each with a new retry schedule. Live events go first. Without `status` all are made again, also those ' +
          'that were delivered; deliveries that are pending are on their way, and left alone, as are test events and what ' +
          'another replay that is running makes again. The job survives restarts. A disabled endpoint is 400: enable it ' +
          'first, or everything would be skipped.',
        body: CreateReplay,
        response: responses('The job', Replay, 'not_found', 'already_exists'),
      },
    },
    async ({ body: { endpoint_id: endpointId, ...filter }, reservedId: id }) => {
      const endpoint = existing(await getEndpoint(db, secrets, endpointId), 'endpoint');
      if (!endpoint.enabled) throw new ApiError('invalid_parameters', 'endpoint_id is disabled: enable it first');
      const { since, until } = filter;
      const dates = {
        ...(since === undefined ? {} : { since: readDate(since).toISOString() }),
        ...(until === undefined ? {} : { until: readDate(until).toISOString() }),
      };
      await createReplay(db, { id, endpointId, filter: { ...filter, ...dates } });
      await commands.startReplay({ id, endpointId });
      return existing(await getReplay(db, id), 'replay');
    },
  );

  app.get(
    '/webhooks/replays',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'listReplays',
        summary: 'List replays',
        querystring: Type.Object({
          endpoint_id: Type.Optional(Type.String()),
          status: Type.Optional(OneOf(REPLAY_STATUSES)),
          offset: Offset,
          limit: Limit(),
        }),
        response: responses('Replays, newest first', ReplayList),
      },
    },
    async ({ query }) => {
      const filter = { endpointId: query.endpoint_id, status: query.status };
      const { data, hasMore } = await listReplays(db, filter, query);
      return { object: 'Replays', data, has_more: hasMore };
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
        params: Params,
        response: responses('The job and its counts', Replay, 'not_found'),
      },
    },
    async ({ params }) => existing(await getReplay(db, params.id), 'replay'),
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
          'Queues no further delivery, and puts those that are queued and not attempted back to the status that they had. ' +
          'One that was attempted goes on with its retries. A replay that has ended stays as it is.',
        params: Params,
        response: responses('The job', Replay, 'not_found'),
      },
    },
    async ({ params }) => {
      existing(await getReplay(db, params.id), 'replay');
      await commands.cancelReplay(params.id);
      return existing(await getReplay(db, params.id), 'replay');
    },
  );
};
