/** Every event type of the API. */
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
export type EventType = (typeof EVENT_TYPES)[number];

export const isEventType = (text: string): text is EventType => (EVENT_TYPES as readonly string[]).includes(text);
