import { setTimeout as sleep } from 'node:timers/promises';
import { Readable } from 'node:stream';
import Type from 'typebox';
import { EVENT_TYPES } from '../../contract/events.ts';
import { keyExists } from '../../db/api-keys.ts';
import { feedEnd, type FeedFilter, feedPlaceOf, type FeedPlace, readFeed } from '../../db/event-feed.ts';
import { visibleAccounts } from '../access.ts';
import { TooManyRequests } from '../request-limits.ts';
import { readPlace, readTypes } from './events.ts';
import { responsesAs, type RouteDeps, type Routes } from './route.ts';

/** Between two looks at the feed, and between two signs of life, ms. */
const POLL_MS = 700;
const SIGN_OF_LIFE_MS = 15_000;
/** Whether the key is still valid is looked up this often, ms. */
const ADMIT_MS = 3_000;
const PAGE = 100;
/** Of one process. */
const MAX_STREAMS = 200;

/** The event feed as server-sent events. */
export const eventStreamRoutes: Routes = (app, deps) => {
  const open = new Set<AbortController>();
  app.addHook('preClose', async () => {
    for (const one of open) one.abort();
  });

  app.get(
    '/webhooks/events/stream',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'streamEvents',
        summary: 'Events as they happen',
        description:
          'The events of the list, as server-sent events (`text/event-stream`): `id` is that of the event, `event` its type, ' +
          '`data` the event. Begins now, or after the event in `after` or `Last-Event-ID`, which browsers send by themselves ' +
          'when they connect again. Ends with the key.',
        querystring: Type.Object({
          after: Type.Optional(Type.String({ maxLength: 64, description: '`evt_…`' })),
          types: Type.Optional(Type.String({ maxLength: 2048, description: 'event types, separated by commas' })),
          account_id: Type.Optional(Type.String()),
        }),
        response: responsesAs('text/event-stream', 'The events', Type.String()),
      },
    },
    async ({ query, headers, caller }, reply) => {
      if (open.size >= MAX_STREAMS)
        throw new TooManyRequests('too many streams of events are open', { limit: MAX_STREAMS, resetS: 10 });
      const last = headers['last-event-id'] ?? query.after;
      const filter: FeedFilter = {
        types: query.types === undefined ? EVENT_TYPES : readTypes(query.types),
        accountIds: visibleAccounts(caller, query.account_id),
      };
      const after = typeof last === 'string' ? await readPlace(deps.db, caller, last) : await feedEnd(deps.db);
      const controller = new AbortController();
      open.add(controller);
      const stream = Readable.from(
        follow(deps, { filter, after, apiKeyId: caller.apiKeyId, signal: controller.signal }),
      );
      stream.once('close', () => {
        controller.abort();
        open.delete(controller);
      });
      return reply.header('X-Accel-Buffering', 'no').type('text/event-stream; charset=utf-8').send(stream);
    },
  );
};

interface Following {
  filter: FeedFilter;
  after: FeedPlace;
  apiKeyId: string;
  signal: AbortSignal;
}

async function* follow({ db }: RouteDeps, { filter, after, apiKeyId, signal }: Following): AsyncGenerator<string> {
  yield 'retry: 2000\n\n';
  let place = after;
  let admittedAt = Date.now();
  let signOfLifeAt = Date.now();
  while (!signal.aborted) {
    if (Date.now() - admittedAt >= ADMIT_MS) {
      if (!(await keyExists(db, apiKeyId))) return;
      admittedAt = Date.now();
    }
    const { data, lastId, hasMore } = await readFeed(db, filter, { after: place, limit: PAGE });
    for (const event of data) yield asEvent(event);
    if (data.length > 0) signOfLifeAt = Date.now();
    if (lastId !== undefined) place = (await feedPlaceOf(db, lastId)) ?? place;
    if (Date.now() - signOfLifeAt >= SIGN_OF_LIFE_MS) {
      yield ': still here\n\n';
      signOfLifeAt = Date.now();
    }
    if (!hasMore) await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** JSON has no line breaks outside of its strings, and none inside them. */
function asEvent(json: string): string {
  const { id, type } = JSON.parse(json) as { id: string; type: string };
  return `id: ${id}\nevent: ${type}\ndata: ${json}\n\n`;
}
