import Type from 'typebox';
import { DateTime, ListOf, Nullable } from './common.ts';

const apiKeyFields = {
  object: Type.Literal('ApiKey'),
  id: Type.String({ description: '`pk_…`' }),
  name: Type.String(),
  prefix: Type.String({ description: 'first characters of the key, which identify it' }),
  created_by: Nullable(
    Type.String({ description: '`pk_…` of the key that created it, which may be revoked; null: the installation' }),
  ),
  role: Type.Literal('service'),
  issued_at: DateTime(),
  expires_at: Nullable(DateTime()),
  last_used_at: Nullable(DateTime()),
};
export const ApiKey = Type.Object(apiKeyFields, { $id: 'ApiKey' });
export type ApiKey = Type.Static<typeof ApiKey>;

export const ApiKeyCreated = Type.Object(
  { ...apiKeyFields, api_key: Type.String({ description: 'the key itself; shown only in this response' }) },
  { $id: 'ApiKeyCreated' },
);
export const CreateApiKey = Type.Object(
  { name: Type.String({ minLength: 1, maxLength: 100 }), expires_at: Type.Optional(Nullable(DateTime())) },
  { $id: 'CreateApiKey' },
);
export const ApiKeyList = ListOf('ApiKeys', ApiKey);
export const ApiKeyDeleted = Type.Object(
  { object: Type.Literal('ApiKeyDeleted'), id: Type.String() },
  { $id: 'ApiKeyDeleted' },
);
