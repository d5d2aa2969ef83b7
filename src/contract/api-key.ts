import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';

export const PERMISSIONS = ['full', 'operate', 'read'] as const;
export type Permissions = (typeof PERMISSIONS)[number];

/** Largest number of accounts that one key can be limited to. */
const MAX_ACCOUNTS = 1_000;
export const KeyPermissions = OneOf(PERMISSIONS, {
  description: '`read`: calls that change anything return 403; `operate`: calls that create or revoke keys return 403',
});

export const KeyAccounts = Nullable(
  Type.Array(Type.String(), {
    description:
      '`acc_…`: the accounts that this key can see and change; such a key manages no keys, endpoints or replays; null: all',
  }),
);

const apiKeyFields = {
  object: Type.Literal('ApiKey'),
  id: Type.String({ description: '`pk_…`' }),
  name: Type.String(),
  prefix: Type.String({ description: 'first characters of the key, to recognise it by' }),
  created_by: Nullable(
    Type.String({
      description: '`pk_…` of the key that created it, which may be revoked since; null: created by the installation',
    }),
  ),
  role: Type.Literal('service'),
  permissions: KeyPermissions,
  accounts: KeyAccounts,
  issued_at: DateTime(),
  expires_at: Nullable(DateTime('null: never')),
  last_used_at: Nullable(DateTime('null: not used yet')),
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
    expires_at: Type.Optional(Nullable(DateTime('null or omitted: never'))),
    permissions: Type.Optional(KeyPermissions),
    accounts: Type.Optional(
      Nullable(
        Type.Array(Type.String(), {
          minItems: 1,
          maxItems: MAX_ACCOUNTS,
          description: '`acc_…`: the accounts that the key is limited to; null or omitted: all, including future ones',
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
