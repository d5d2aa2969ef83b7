import Type from 'typebox';
import { AUDIT_ACTIONS, AuditRecordList } from '../../contract/audit.ts';
import { Cursor, DateTime, Limit, OneOf, readOptionalDate } from '../../contract/common.ts';
import { listAudit } from '../../db/access/audit.ts';
import { responses, type Routes } from './route.ts';

const AuditQuery = Type.Object({
  action: Type.Optional(OneOf(AUDIT_ACTIONS, { description: 'records of this action' })),
  api_key_id: Type.Optional(Type.String({ description: '`pk_…`: calls with this key' })),
  person_id: Type.Optional(Type.String({ description: '`per_…`: calls of this person' })),
  object_id: Type.Optional(
    Type.String({ description: 'id of a key, person, link, account, endpoint, delivery or replay' }),
  ),
  since: Type.Optional(DateTime('records at or after this time')),
  until: Type.Optional(DateTime('records before this time')),
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});

/** Route of the audit log: operations on keys, accounts and endpoints. */
export const auditRoutes: Routes = (app, { db, cursors }) => {
  app.get(
    '/audit',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Audit log'],
        operationId: 'listAuditRecords',
        summary: 'List audit records',
        description:
          'Returns calls that created, changed, removed or replayed an object, refused calls included, and each decoding of ' +
          'workflow histories for the Temporal UI. Records are immutable and stored for 90 days (`AUDIT_RETENTION`).',
        querystring: AuditQuery,
        response: responses('Records, newest first', AuditRecordList),
      },
    },
    async ({ query }) => {
      const list = { name: 'AuditRecords', accountId: '', query };
      const position = cursors.read(list, query.cursor);
      const filter = {
        action: query.action,
        apiKeyId: query.api_key_id,
        personId: query.person_id,
        objectId: query.object_id,
        since: readOptionalDate(query.since),
        until: readOptionalDate(query.until),
      };
      const { data, next } = await listAudit(db, filter, { limit: query.limit, position });
      return { object: 'AuditRecords', data, has_more: next !== null, cursor: cursors.write(list, next) };
    },
  );
};
