import Type from 'typebox';
import { KeyAccounts, KeyPermissions } from './api-key.ts';
import { DateTime, Nullable } from './common.ts';

/** The API key that a call authenticates with, and its session. */
export const Session = Type.Object(
  {
    object: Type.Literal('Session'),
    api_key_id: Type.String({ description: '`pk_…` of the key; revoking the key ends the session' }),
    api_key_name: Type.String(),
    permissions: KeyPermissions,
    accounts: KeyAccounts,
    expires_at: Nullable(DateTime('null: the call used a key, not a session')),
  },
  { $id: 'Session' },
);
export type Session = Type.Static<typeof Session>;
