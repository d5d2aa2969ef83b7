import Type from 'typebox';
import { Limit } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { EVENT_TYPES, EventList, type EventType } from '../../contract/events.ts';
import { isId } from '../../contract/ids.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { type FeedPlace, feedPlaceOf, readFeed } from '../../db/queries/event-feed.ts';
import { jsonArray, jsonWith } from '../../db/driver/json-text.ts';
import { madeAt } from '../../new-id.ts';
import { seesAccount, visibleAccounts } from '../http/access.ts';
import { items } from './email-query.ts';
import { responses, type Routes, sendJson } from './route.ts';

/** How long events are stored, days. */
const STORED_DAYS = 30;
const DAY_MS = 86_400_000;

const EventQuery = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 64, description: '`evt_…`: begins with the event after this one' })),
  cursor: Type.Optional(Type.String({ maxLength: 64, description: '`cursor` of the previous response; like `after`' })),
  types: Type.Optional(Type.String({ maxLength: 2048, description: 'event types, separated by commas' })),
  account_id: Type.Optional(Type.String()),
  limit: Limit(),
});

/** The events themselves (CONTRACT "Webhooks"), whatever the endpoints are. */
export const eventRoutes: Routes = (app, { db }) => {
  app.get(
    '/webhooks/events',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'listEvents',
        summary: 'List events',
        description:
          'Every event of the last 30 days, oldest first, whether endpoints got it or not: to catch up after an outage, ' +
          'or to poll. Send the id of the last event that you have as `after`; with no `after` the list begins at the ' +
          'oldest event. No event is ever added before one that was listed. Events of one account are in the order of ' +
          '`sequence`. An event is listed once all changes that were being stored before it are stored, as a rule ' +
          'within milliseconds. `endpoint_id` is null; test events are not listed. An `after` that is not stored any ' +
          'more is 400.',
        querystring: EventQuery,
        response: responses('Events, oldest first', EventList),
      },
    },
    async ({ query, caller }, reply) => {
      const last = query.cursor ?? query.after;
      const after = last === undefined ? undefined : await readPlace(db, caller, last);
      const filter = {
        types: query.types === undefined ? EVENT_TYPES : readTypes(query.types),
        accountIds: visibleAccounts(caller, query.account_id),
      };
      const { data, lastId, hasMore } = await readFeed(db, filter, { after, limit: query.limit });
      const rest = { object: 'Events' as const, has_more: hasMore, cursor: hasMore && lastId ? lastId : null };
      return sendJson(reply, jsonWith<EventList, 'data'>(rest, { data: jsonArray(data) }));
    },
  );
};

/** @throws ApiError invalid_parameters naming the type that there is none of */
export function readTypes(list: string): EventType[] {
  const types = [...new Set(items(list))];
  const unknown = types.find((type) => !(EVENT_TYPES as readonly string[]).includes(type));
  if (unknown !== undefined) throw invalid(`types: ${unknown} is not a type of event`);
  if (types.length === 0) throw invalid('types names no type of event');
  return types as EventType[];
}

/** Where the feed goes on after that event. @throws ApiError invalid_parameters when it is not stored, or not for the caller */
export async function readPlace(db: Queryable, caller: Caller, eventId: string): Promise<FeedPlace> {
  if (!isId('event', eventId)) throw invalid('after is not the id of an event');
  const place = await feedPlaceOf(db, eventId);
  if (place && seesAccount(caller, place.accountId)) return place;
  const isOld = Date.now() - madeAt(eventId).getTime() > STORED_DAYS * DAY_MS;
  if (!isOld) throw invalid('after is the id of no event that is stored');
  throw invalid(
    `after is the id of an event from more than ${STORED_DAYS} days ago, which are not stored: ` +
      'later events may be missing. Leave after out to begin with the oldest event that is stored',
  );
}

function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
