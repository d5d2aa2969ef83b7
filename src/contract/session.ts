import Type from 'typebox';
import { DateTime, Nullable } from './common.ts';

/** Who is signed in. */
export const Session = Type.Object(
  {
    object: Type.Literal('Session'),
    api_key_id: Type.String({ description: '`pk_…` that it began with: it ends with that key' }),
    api_key_name: Type.String(),
    expires_at: Nullable(DateTime('null: the call has a key and no session')),
  },
  { $id: 'Session' },
);
export type Session = Type.Static<typeof Session>;
