import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';

export const PERMISSIONS = ['full', 'read'] as const;
export type Permissions = (typeof PERMISSIONS)[number];

/** Accounts that one key can be limited to. */
const MAX_ACCOUNTS = 1_000;
const permissions = OneOf(PERMISSIONS, { description: '`read`: calls that change something are 403' });

const apiKeyFields = {
  object: Type.Literal('ApiKey'),
  id: Type.String({ description: '`pk_…`' }),
  name: Type.String(),
  prefix: Type.String({ description: 'first characters of the key, which identify it' }),
  created_by: Nullable(
    Type.String({ description: '`pk_…` of the key that created it, which may be revoked; null: the installation' }),
  ),
  role: Type.Literal('service'),
  permissions,
  accounts: Nullable(
    Type.Array(Type.String(), {
      description:
        '`acc_…`: for this key there are no other accounts, and it manages neither keys nor endpoints nor replays; null: all',
    }),
  ),
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
  {
    name: Type.String({ minLength: 1, maxLength: 100 }),
    expires_at: Type.Optional(Nullable(DateTime())),
    permissions: Type.Optional(permissions),
    accounts: Type.Optional(
      Nullable(
        Type.Array(Type.String(), {
          minItems: 1,
          maxItems: MAX_ACCOUNTS,
          description: '`acc_…`: the accounts that the key is limited to; null or left out: all, also later ones',
        }),
      ),
    ),
  },
  { $id: 'CreateApiKey' },
);
export const ApiKeyList = ListOf('ApiKeys', ApiKey);
export const ApiKeyDeleted = Type.Object(
  { object: Type.Literal('ApiKeyDeleted'), id: Type.String() },
  { $id: 'ApiKeyDeleted' },
);
