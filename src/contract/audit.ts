import Type from 'typebox';
import { CursorListOf, DateTime, Nullable, ObjectName, OneOf } from './common.ts';

export const AUDIT_ACTIONS = [
  'api_key.create',
  'api_key.revoke',
  'session.create',
  'person.invite',
  'person.accept',
  'person.update',
  'person.reset',
  'person.change_password',
  'person.remove',
  'auth_link.create',
  'auth_link.revoke',
  'account.connect',
  'account.reconnect',
  'account.update',
  'account.remove',
  'account.reparse',
  'import.create',
  'import.pause',
  'import.continue',
  'import.cancel',
  'oauth_app.create',
  'oauth_app.update',
  'oauth_app.delete',
  'device_sign_in.create',
  'webhook_endpoint.create',
  'webhook_endpoint.update',
  'webhook_endpoint.delete',
  'webhook_endpoint.rotate_secret',
  'webhook_endpoint.test',
  'delivery.retry',
  'replay.create',
  'replay.cancel',
  'history.decode',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

export const AUDIT_OUTCOMES = ['done', 'refused', 'failed'] as const;
export type AuditOutcome = (typeof AUDIT_OUTCOMES)[number];

/** One operation on keys, accounts or endpoints, also when it was refused or failed. */
export const AuditRecord = Type.Object(
  {
    object: ObjectName('AuditRecord'),
    id: Type.String({ description: '`aud_…`' }),
    at: DateTime('when the response was sent'),
    action: OneOf(AUDIT_ACTIONS, { description: 'what was called: the object and the operation' }),
    outcome: OneOf(AUDIT_OUTCOMES, {
      description: '`refused`: the response was 4xx; `failed`: it was 5xx, and the operation may have completed later',
    }),
    status: Type.Integer({ description: 'HTTP status of the response' }),
    object_id: Nullable(
      Type.String({
        description:
          'the key, person, link, account, sign-in, import, endpoint, delivery or replay; null: nothing was created',
      }),
    ),
    object_name: Nullable(
      Type.String({
        description:
          'its name at the time, of a person with the address; of a mailbox without a name its address, until it is removed; null: it has none',
      }),
    ),
    api_key_id: Nullable(
      Type.String({ description: '`pk_…` of the call; null: a person made it, or it needs no key (`history.decode`)' }),
    ),
    person_id: Nullable(Type.String({ description: '`per_…` of the person who made the call; null: a key did' })),
    actor: Nullable(
      Type.String({ description: 'name of the key, or name and address of the person, at the time of the call' }),
    ),
    address: Type.String({ description: 'IP address of the caller; see `TRUST_PROXY`' }),
    request_id: Type.String({ description: '`X-Request-Id` of the call' }),
  },
  { $id: 'AuditRecord', description: 'one operation, also when it was refused or failed' },
);
export type AuditRecord = Type.Static<typeof AuditRecord>;

export const AuditRecordList = CursorListOf('AuditRecords', AuditRecord);
export type AuditRecordList = Type.Static<typeof AuditRecordList>;
