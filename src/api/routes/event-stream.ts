import { setTimeout as sleep } from 'node:timers/promises';
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { EVENT_TYPES } from '../../contract/events.ts';
import { keyExists } from '../../db/access/api-keys.ts';
import {
  BEGINNING,
  feedEnd,
  type FeedFilter,
  feedPlaceOf,
  type FeedPlace,
  readFeed,
} from '../../db/queries/event-feed.ts';
import { findSession } from '../../db/access/sessions.ts';
import { visibleAccounts } from '../http/access.ts';
import { sessionToken } from '../http/session-cookie.ts';
import { TooManyRequests } from '../http/request-limits.ts';
import { readPlace, readTypes } from './events.ts';
import { responsesAs, type RouteDeps, type Routes } from './route.ts';

/** Interval of polling the feed, and of keep-alive comments, ms. */
const POLL_MS = 700;
const KEEP_ALIVE_MS = 15_000;
/** Interval of checking that the key is still valid, ms. */
const ADMIT_MS = 3_000;
/** Time of a stream to end after that, ms. */
const END_MS = 1_000;
const PAGE = 100;
/** The id to continue a stream by that began before there was an event. */
const BEFORE_ALL = 'start';
/** Limits of open streams per process, and per key. */
const MAX_STREAMS = 200;
const MAX_STREAMS_OF_KEY = 20;

const StreamQuery = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 64, description: '`evt_…`: begins after this event' })),
  types: Type.Optional(Type.String({ maxLength: 2048, description: 'event types, separated by commas' })),
  account_id: Type.Optional(Type.String({ description: '`acc_…`' })),
});

/** Route that streams the event feed as server-sent events. */
export const eventStreamRoutes: Routes = (app, deps) => {
  /** the open streams, with the id of their API key */
  const open = new Map<AbortController, string>();
  app.addHook('preClose', async () => {
    for (const one of open.keys()) one.abort();
  });

  app.get(
    '/webhooks/events/stream',
    {
      config: { reach: 'within' },
      // a HEAD request would hold a stream that no client closes
      exposeHeadRoute: false,
      schema: {
        tags: ['Webhooks'],
        operationId: 'streamEvents',
        summary: 'Stream events',
        description:
          'Streams the event feed as server-sent events (`text/event-stream`): `id` is the id of the event, `event` its type, ' +
          '`data` the event. The stream begins now, or after the event in `after` or in `Last-Event-ID`, which browsers send ' +
          'when they reconnect; an `id` alone comes first, to reconnect by before there is an event. It ends when the key is revoked or the session expires.',
        querystring: StreamQuery,
        response: responsesAs('text/event-stream', 'The events', Type.String()),
      },
    },
    async (request, reply) => {
      const { headers, caller } = request;
      const ofKey = [...open.values()].filter((id) => id === caller.apiKeyId).length;
      if (open.size >= MAX_STREAMS || ofKey >= MAX_STREAMS_OF_KEY)
        throw new TooManyRequests('too many event streams are open', { limit: MAX_STREAMS, resetS: 10 });
      const controller = new AbortController();
      // before the first await: many calls may arrive at once
      open.set(controller, caller.apiKeyId);
      const close = () => {
        controller.abort();
        open.delete(controller);
      };
      // the stream itself ends with its next event only
      reply.raw.once('close', close);
      const begun = await beginOf(deps, request).catch((error: unknown) => {
        close();
        throw error;
      });
      const session = headers['x-api-key'] === undefined ? sessionToken(request, deps.settings.publicUrl) : undefined;
      const stream = Readable.from(follow(deps, { ...begun, signal: controller.signal }));
      stream.once('close', close);
      endWhenRevoked(deps, { apiKeyId: caller.apiKeyId, session }, { controller, stream });
      return reply.header('X-Accel-Buffering', 'no').type('text/event-stream; charset=utf-8').send(stream);
    },
  );
};

/** The events that a call asks for, and the place in the feed where its stream begins. */
async function beginOf(
  { db }: RouteDeps,
  { query, headers, caller }: Pick<FastifyRequest, 'headers' | 'caller'> & { query: Type.Static<typeof StreamQuery> },
): Promise<Pick<Following, 'filter' | 'after' | 'newestId'>> {
  const resumed = headers['last-event-id'];
  const last = resumed ?? query.after;
  const filter: FeedFilter = {
    types: query.types === undefined ? EVENT_TYPES : readTypes(query.types),
    accountIds: visibleAccounts(caller, query.account_id),
  };
  if (last === BEFORE_ALL) return { filter, after: BEGINNING };
  if (typeof last === 'string') {
    // a browser that is refused does not connect again
    return { filter, after: await readPlace(db, caller, last, { orOldest: resumed !== undefined }) };
  }
  const newest = await readFeed(db, { ...filter, types: EVENT_TYPES }, { limit: 1, newestFirst: true });
  if (newest.lastId === undefined) return { filter, after: BEGINNING, newestId: BEFORE_ALL };
  const place = await feedPlaceOf(db, newest.lastId);
  return { filter, after: place ?? (await feedEnd(db)), newestId: place && newest.lastId };
}

interface Following {
  filter: FeedFilter;
  after: FeedPlace;
  /** what a stream that begins now, and is cut off before its first event, continues after: the newest event, or BEFORE_ALL */
  newestId?: string | undefined;
  signal: AbortSignal;
}

async function* follow({ db }: RouteDeps, { filter, after, newestId, signal }: Following): AsyncGenerator<string> {
  yield `retry: 2000\n${newestId === undefined ? '' : `id: ${newestId}\n`}\n`;
  let place = after;
  let keptAliveAt = performance.now();
  while (!signal.aborted) {
    const { data, hasMore, end } = await readFeed(db, filter, { after: place, limit: PAGE });
    for (const event of data) {
      if (signal.aborted) return;
      yield asEvent(event);
    }
    if (data.length > 0) keptAliveAt = performance.now();
    place = end;
    if (performance.now() - keptAliveAt >= KEEP_ALIVE_MS) {
      yield ': keep-alive\n\n';
      keptAliveAt = performance.now();
    }
    if (!hasMore) await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Who opened a stream. */
interface StreamOwner {
  apiKeyId: string;
  /** the token of the session; undefined: the key itself */
  session: string | undefined;
}

/** Ends a stream when its owner is no longer admitted. */
function endWhenRevoked(
  deps: RouteDeps,
  owner: StreamOwner,
  { controller, stream }: { controller: AbortController; stream: Readable },
): void {
  const { signal } = controller;
  const check = async () => {
    // a stream that cannot read the database ends for that
    while (!signal.aborted && (await isAdmitted(deps, owner).catch(() => true)))
      await sleep(ADMIT_MS, undefined, { signal }).catch(() => undefined);
    controller.abort();
    // where a client does not read, the end waits behind events that the owner may no longer see
    setTimeout(() => stream.destroy(), END_MS).unref();
  };
  void check();
}

/** Whether the key, and the session if one opened the stream, are still valid. */
async function isAdmitted({ db, pool }: RouteDeps, owner: StreamOwner): Promise<boolean> {
  if (owner.session !== undefined && !(await findSession(pool, owner.session))) return false;
  return keyExists(db, owner.apiKeyId);
}

/** Formats a server-sent event. Stored JSON contains no line breaks, which would end `data`. */
function asEvent(json: string): string {
  const { id, type } = JSON.parse(json) as { id: string; type: string };
  return `id: ${id}\nevent: ${type}\ndata: ${json}\n\n`;
}
