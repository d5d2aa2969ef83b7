import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf } from './common.ts';

export const PERMISSIONS = ['full', 'operate', 'read'] as const;
export type Permissions = (typeof PERMISSIONS)[number];

/** Largest number of accounts that one key can be limited to. */
const MAX_ACCOUNTS = 1_000;
export const KeyPermissions = OneOf(PERMISSIONS, {
  description:
    '`read`: calls that change anything return 403; `operate`: calls that change keys or people return 403; `full`: no limit',
});

export const KeyAccounts = Nullable(
  Type.Array(Type.String(), {
    description:
      '`acc_…`: the accounts that this key can see and change; such a key manages no keys, endpoints or replays; null: all',
  }),
);

const apiKeyFields = {
  object: ObjectName('ApiKey'),
  id: IdOf('apiKey'),
  name: Type.String({ description: 'name that was given when it was created' }),
  prefix: Type.String({ description: 'first characters of the key, to recognise it by' }),
  created_by: Nullable(
    Type.String({
      description: '`pk_…` of the key that created it, which may be revoked since; null: created by the installation',
    }),
  ),
  role: Type.Literal('service', { description: 'always `service`' }),
  permissions: KeyPermissions,
  accounts: KeyAccounts,
  issued_at: CreatedAt,
  expires_at: Nullable(DateTime('null: never')),
  last_used_at: Nullable(DateTime('null: not used yet')),
};
export const ApiKey = Type.Object(apiKeyFields, { $id: 'ApiKey', description: 'a key, without its value' });
export type ApiKey = Type.Static<typeof ApiKey>;

export const ApiKeyCreated = Type.Object(
  { ...apiKeyFields, api_key: Type.String({ description: 'the key itself; shown only in this response' }) },
  { $id: 'ApiKeyCreated', description: 'a new key, with its value' },
);
export const CreateApiKey = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 100, description: 'what the key is for' }),
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
  { $id: 'CreateApiKey', description: 'a key to create' },
);
export const ApiKeyList = ListOf('ApiKeys', ApiKey);
export const ApiKeyDeleted = Type.Object(
  { object: ObjectName('ApiKeyDeleted'), id: IdOf('apiKey') },
  { $id: 'ApiKeyDeleted', description: 'the key was revoked' },
);
