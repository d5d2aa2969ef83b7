import Type from 'typebox';
import { Limit, OneOf } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { EVENT_TYPES, EventList, type EventType } from '../../contract/events.ts';
import { isId } from '../../contract/ids.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { BEGINNING, type FeedPlace, feedPlaceOf, placeOfRestoreAfter, readFeed } from '../../db/queries/event-feed.ts';
import { jsonArray, jsonWith } from '../../db/driver/json-text.ts';
import { madeAt } from '../../new-id.ts';
import { seesAccount, visibleAccounts } from '../http/access.ts';
import { items } from './mail/email-query.ts';
import { responses, type Routes, sendJson } from './route.ts';

/** How long events are stored, days. */
const STORED_DAYS = 30;
const DAY_MS = 86_400_000;

const EventQuery = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 64, description: '`evt_…`: begins after this event' })),
  cursor: Type.Optional(
    Type.String({ maxLength: 64, description: '`cursor` of the previous response; equivalent to `after`' }),
  ),
  order: Type.Optional(
    OneOf(['asc', 'desc'], {
      description:
        'default: `asc`, oldest first. `desc`: newest first; `after` and `cursor` then continue with older events',
    }),
  ),
  types: Type.Optional(Type.String({ maxLength: 2048, description: 'event types, separated by commas' })),
  account_id: Type.Optional(Type.String({ description: '`acc_…`' })),
  limit: Limit(),
});

/** Route of the event feed, which is independent of endpoints. */
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
          'Returns every event of the last 30 days, oldest first, whether or not it was delivered to endpoints. Use it to ' +
          'catch up after an outage, or to poll: pass the id of the last event that you have as `after`. Without `after` ' +
          'the list begins at the oldest event. New events only ever appear at the end; events of one account are in the ' +
          'order of `sequence`. An event appears once all earlier changes are stored, usually within milliseconds. ' +
          '`endpoint_id` is null, and test events are omitted, as are events whose content was erased: those of a removed account but ' +
          'its `account.remove`, and those of emails in a folder that the account excludes now. Returns 400 if the event in ' +
          '`after` is no longer stored; after an event that a restore from a backup has lost, the list begins with `account.restored`.',
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
      const { data, lastId, hasMore } = await readFeed(db, filter, {
        after,
        limit: query.limit,
        newestFirst: query.order === 'desc',
      });
      const rest = { object: 'Events' as const, has_more: hasMore, cursor: hasMore && lastId ? lastId : null };
      return sendJson(reply, jsonWith<EventList, 'data'>(rest, { data: jsonArray(data) }));
    },
  );
};

/** Parses a comma-separated list of event types. @throws ApiError invalid_parameters, naming an unknown type */
export function readTypes(list: string): EventType[] {
  const types = [...new Set(items(list))];
  const unknown = types.find((type) => !(EVENT_TYPES as readonly string[]).includes(type));
  if (unknown !== undefined) throw invalid(`types: ${unknown} is not an event type`);
  if (types.length === 0) throw invalid('types must name an event type');
  return types as EventType[];
}

/**
 * Position of the feed after an event. `orOldest`: the beginning, when the event is so old that it is no longer stored.
 * @throws ApiError invalid_parameters when the event is not stored or not visible to the caller
 */
export async function readPlace(
  db: Queryable,
  caller: Caller,
  eventId: string,
  { orOldest = false } = {},
): Promise<FeedPlace> {
  if (!isId('event', eventId)) throw invalid('after is not the id of an event');
  const place = await feedPlaceOf(db, eventId);
  if (place && seesAccount(caller, place.accountId)) return place;
  // a time after the year 2562, or none: no id of this API
  if (!/^evt_0[0-9a-g]/.test(eventId)) throw invalid('after is not the id of a stored event');
  const isOld = Date.now() - madeAt(eventId).getTime() > STORED_DAYS * DAY_MS;
  // the store was set back, and does not know it
  const restored = place || isOld ? undefined : await placeOfRestoreAfter(db, madeAt(eventId));
  if (restored) return restored;
  if (!isOld) throw invalid('after is not the id of a stored event');
  if (orOldest && !place) return BEGINNING;
  throw invalid(
    `after is the id of an event that is more than ${STORED_DAYS} days old and no longer stored: ` +
      'events may be missing. Omit after to begin with the oldest stored event',
  );
}

function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}
