import Type from 'typebox';
import { Account, AccountName, InitialSync, Provider, UserId } from './account.ts';
import { CursorListOf, DateTime, IdOf, ObjectName, OneOf } from './common.ts';
import { Email } from './email.ts';
import { Folder } from './folder.ts';
import { OAUTH_PROVIDERS } from './oauth.ts';
import { Import } from './runs/import.ts';
import { TrackingClickData, TrackingOpenData } from './tracking.ts';

/** Every event type that an endpoint can subscribe to. */
export const EVENT_TYPES = [
  'email.new',
  'email.new.bounce',
  'email.update',
  'email.delete',
  'email.draft.new',
  'email.draft.delete',
  'email.folder.create',
  'email.folder.update',
  'email.folder.delete',
  'tracking.open',
  'tracking.click',
  'account.add',
  'account.reconnect',
  'account.remove',
  'account.status.running',
  'account.status.errored',
  'account.status.disconnected',
  'account.initial_sync.running',
  'account.initial_sync.completed',
  'account.initial_sync.failed',
  'account.restored',
  'oauth_app.failing',
  'oauth_app.recovered',
  'import.started',
  'import.completed',
  'import.failed',
  'import.cancelled',
] as const;
export const EventType = OneOf(EVENT_TYPES, {
  $id: 'EventType',
  description: 'type of an event; later versions may add types',
});
export type EventType = (typeof EVENT_TYPES)[number];

export const EmailEventData = Type.Object({ email: Email });
export const FolderEventData = Type.Object({ folder: Folder });
export const AccountEventData = Type.Object({
  account: Account,
  state: Type.Optional(Type.String({ description: '`state` of the connect; absent: none was given' })),
});
export const AccountRemoveData = Type.Object({
  account: Type.Object(
    { id: IdOf('account'), user_id: UserId, name: AccountName, provider: Provider },
    { description: 'the account that was removed' },
  ),
});
export const AccountStatusData = Type.Object({
  status: Type.String({ description: '`status` of the account' }),
  previous_status: Type.String({ description: '`status` before; the same: its detail changed' }),
  status_detail: Type.String({ description: '`status_detail` of the account; empty: nothing to say' }),
});
export const InitialSyncData = Type.Object({ initial_sync: InitialSync });
export const ImportData = Type.Object({ import: Import });
export const RestoredData = Type.Object({
  epoch: Type.Integer({ description: '`epoch` of this event and all later ones' }),
  set_back_to: DateTime('the store was set back to about this time: what it had learned since is lost'),
  restored_at: DateTime('when it was restored'),
});

export const OAuthAppEventData = Type.Object({
  app: Type.Object(
    {
      id: IdOf('oauthApp'),
      provider: OneOf(OAUTH_PROVIDERS, { description: 'where it is registered' }),
      name: Type.String({ description: 'its name' }),
      status: OneOf(['ok', 'failing'], { description: 'whether the provider accepts it' }),
      status_detail: Type.String({ description: 'why it is failing; empty: it works again' }),
    },
    { description: 'the app' },
  ),
});

/** The schema of `data` for each event type. */
export const EVENT_DATA = {
  'email.new': EmailEventData,
  'email.new.bounce': EmailEventData,
  'email.update': EmailEventData,
  'email.delete': EmailEventData,
  'email.draft.new': EmailEventData,
  'email.draft.delete': EmailEventData,
  'email.folder.create': FolderEventData,
  'email.folder.update': FolderEventData,
  'email.folder.delete': FolderEventData,
  'tracking.open': TrackingOpenData,
  'tracking.click': TrackingClickData,
  'account.add': AccountEventData,
  'account.reconnect': AccountEventData,
  'account.remove': AccountRemoveData,
  'account.status.running': AccountStatusData,
  'account.status.errored': AccountStatusData,
  'account.status.disconnected': AccountStatusData,
  'account.initial_sync.running': InitialSyncData,
  'account.initial_sync.completed': InitialSyncData,
  'account.initial_sync.failed': InitialSyncData,
  'account.restored': RestoredData,
  'oauth_app.failing': OAuthAppEventData,
  'oauth_app.recovered': OAuthAppEventData,
  'import.started': ImportData,
  'import.completed': ImportData,
  'import.failed': ImportData,
  'import.cancelled': ImportData,
} as const;

/** The body of every request to a webhook endpoint ; `sequence` counts per account without gaps. */
export const EventEnvelope = Type.Object(
  {
    object: ObjectName('Event'),
    id: Type.String({ description: '`evt_…`; the same for every endpoint and every retry' }),
    type: EventType,
    created_at: DateTime('when the change was recorded'),
    account_id: IdOf('account'),
    endpoint_id: Type.String({ description: '`we_…` of the endpoint that receives this request' }),
    sequence: Type.Integer({
      description: 'counts per account without gaps, except that `account.restored` jumps ahead; 0: a test event',
    }),
    epoch: Type.Optional(
      Type.Integer({
        description:
          'when the installation was last restored from a backup, in ms since 1970; absent in events from before a restore. ' +
          'Each restore has a greater one',
      }),
    ),
    test: Type.Optional(Type.Literal(true, { description: 'present in test events only' })),
    data: Type.Unsafe<Record<string, unknown>>({ type: 'object', description: 'depends on `type`' }),
  },
  { $id: 'Event', description: 'an event, as endpoints receive it' },
);
export type EventEnvelope = Type.Static<typeof EventEnvelope>;

/** An event in the event feed: the delivered event with `endpoint_id` null. */
export const ListedEvent = Type.Object(
  { ...EventEnvelope.properties, endpoint_id: Type.Null({ description: 'always null' }) },
  { $id: 'ListedEvent', description: 'an event in the event feed' },
);
export type ListedEvent = Type.Static<typeof ListedEvent>;

export const EventList = CursorListOf('Events', ListedEvent);
export type EventList = Type.Static<typeof EventList>;

/** A stored event. */
export interface StoredEvent {
  id: string;
  type: EventType;
  createdAt: Date;
  accountId: string;
  sequence: number;
  /** null: the installation had never been restored */
  epoch: number | null;
  /** JSON text, made once when the event was recorded */
  data: string;
  /** a sample that tests an endpoint */
  test?: boolean;
}

/**
 * The body of the request that delivers an event to an endpoint; `endpointId` null: the event in the feed.
 * Concatenates stored pieces in a fixed order: every attempt sends the same bytes.
 */
export function envelopeText(event: StoredEvent, endpointId: string | null): string {
  const head = JSON.stringify({
    object: 'Event',
    id: event.id,
    type: event.type,
    created_at: event.createdAt.toISOString(),
    account_id: event.accountId,
    endpoint_id: endpointId,
    sequence: event.sequence,
    ...(event.epoch === null ? {} : { epoch: event.epoch }),
    ...(event.test ? { test: true } : {}),
  });
  return `${head.slice(0, -1)},"data":${event.data}}`;
}
