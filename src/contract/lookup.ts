import Type from 'typebox';
import { ListOf, Nullable, ObjectName, OneOf } from './common.ts';

/** What a lookup finds, by the kind of its id. */
export const LOOKED_UP = [
  'account',
  'email',
  'attachment',
  'folder',
  'draft',
  'thread',
  'tracking',
  'event',
  'delivery',
  'endpoint',
  'replay',
  'import',
  'batch',
  'apiKey',
  'authLink',
  'oauthApp',
] as const;
export type LookedUp = (typeof LOOKED_UP)[number];

/** One object that a lookup has found. */
export const LookupHit = Type.Object(
  {
    object: ObjectName('LookupHit'),
    kind: OneOf(LOOKED_UP, { description: 'what the id names' }),
    id: Type.String({ description: 'id of the object' }),
    account_id: Nullable(Type.String(), '`acc_…`; null: it belongs to the installation'),
    email_id: Nullable(Type.String(), '`email_…` of an email, and of an attachment or a tracked email'),
    name: Type.String({ description: 'its name, subject, type or URL; may be empty' }),
  },
  { $id: 'LookupHit', description: 'an object that a lookup has found' },
);
export type LookupHit = Type.Static<typeof LookupHit>;

export const LookupList = ListOf('Lookup', LookupHit);
export type LookupList = Type.Static<typeof LookupList>;
