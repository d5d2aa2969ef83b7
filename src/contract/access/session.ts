import Type from 'typebox';
import { KeyAccounts, KeyPermissions } from '../api-key.ts';
import { DateTime, Nullable, ObjectName, OneOf } from '../common.ts';
import { PERSON_SOURCES } from './person.ts';

/** Who a call comes from: an API key or a person, and their session. */
export const Session = Type.Object(
  {
    object: ObjectName('Session'),
    api_key_id: Nullable(
      Type.String({ description: '`pk_…` of the key; revoking it ends the session; null: a person is signed in' }),
    ),
    api_key_name: Nullable(Type.String(), 'name of the key; null: a person is signed in'),
    person: Nullable(
      Type.Object({
        id: Type.String({ description: '`per_…`' }),
        name: Type.String({ description: 'name and address' }),
        source: OneOf(PERSON_SOURCES, { description: '`invitation`: signed in with a password' }),
      }),
      'who is signed in; null: a key is',
    ),
    permissions: KeyPermissions,
    accounts: KeyAccounts,
    expires_at: Nullable(DateTime('null: the call used a key, not a session')),
  },
  { $id: 'Session', description: 'who a call comes from, and what they may do' },
);
export type Session = Type.Static<typeof Session>;
