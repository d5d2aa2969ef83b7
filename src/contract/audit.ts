import Type from 'typebox';
import { CursorListOf, DateTime, Nullable, OneOf } from './common.ts';

export const AUDIT_ACTIONS = [
  'api_key.create',
  'api_key.revoke',
  'session.create',
  'auth_link.create',
  'auth_link.revoke',
  'account.connect',
  'account.reconnect',
  'account.update',
  'account.remove',
  'account.reparse',
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

/** One operation on keys, accounts or endpoints, or the attempt of one. */
export const AuditRecord = Type.Object(
  {
    object: Type.Literal('AuditRecord'),
    id: Type.String({ description: '`aud_…`' }),
    at: DateTime(),
    action: OneOf(AUDIT_ACTIONS),
    outcome: OneOf(AUDIT_OUTCOMES, {
      description: '`refused`: the response was 4xx; `failed`: it was 5xx, and it may have been done later',
    }),
    status: Type.Integer({ description: 'of the response' }),
    object_id: Nullable(
      Type.String({ description: 'the key, link, account, endpoint, delivery or replay; null: nothing was made' }),
    ),
    api_key_id: Nullable(Type.String({ description: '`pk_…` of the call; null: it needed none (`history.decode`)' })),
    address: Type.String({ description: 'IP address that the call came from; see `TRUST_PROXY`' }),
    request_id: Type.String({ description: '`X-Request-Id` of the call' }),
  },
  { $id: 'AuditRecord' },
);
export type AuditRecord = Type.Static<typeof AuditRecord>;

export const AuditRecordList = CursorListOf('AuditRecords', AuditRecord);
export type AuditRecordList = Type.Static<typeof AuditRecordList>;
