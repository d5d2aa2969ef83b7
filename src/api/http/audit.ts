import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AuditAction } from '../../contract/audit.ts';
import { ERRORS } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import { lastConnect } from '../../db/queries/accounts.ts';
import { type AuditedCall, recordAudit } from '../../db/access/audit.ts';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** calls of the route go into the audit log as this */
    audit?: AuditAction;
  }
  interface FastifyRequest {
    /** the id of what the call made */
    auditedId: string | null;
  }
}

/**
 * Records the calls of routes with `audit`, also those that were refused: before the response is sent, so that whoever has
 * it finds the record. Ids, the address and the outcome, never what was sent. A record that cannot be stored is logged.
 */
export function auditCalls(app: FastifyInstance, { db, logger }: { db: Db; logger: Logger }): void {
  app.decorateRequest('auditedId', null);
  app.addHook('preSerialization', async (request, _reply, payload) => {
    const made = (payload as { id?: unknown } | null)?.id;
    if (typeof made === 'string') request.auditedId = made;
    return payload;
  });
  app.addHook('onSend', async (request, reply, payload) => {
    const { audit } = request.routeOptions.config;
    if (audit === undefined || !isRecorded(request, reply)) return payload;
    const recorded = record(db, audit, request, reply.statusCode).catch((err: unknown) => {
      const call = { requestId: request.id, action: audit, status: reply.statusCode };
      logger.error({ err, ...call, apiKeyId: request.caller?.apiKeyId }, 'an audit record could not be stored');
    });
    // a part that is away must not hold up the response that says so
    if (reply.statusCode < 500) await recorded;
    return payload;
  });
}

/** A call that was not let in did nothing, and may be one of many; one that is replayed did nothing now. */
function isRecorded({ caller }: FastifyRequest, reply: FastifyReply): boolean {
  const { statusCode } = reply;
  const wasLetIn = caller ? statusCode !== ERRORS.too_many_requests.status : statusCode < 400;
  return wasLetIn && !reply.hasHeader('Idempotency-Replayed');
}

async function record(db: Db, audit: AuditAction, request: FastifyRequest, status: number): Promise<void> {
  const { id: requestId, ip: address, auditedId } = request;
  const { id: inPath } = (request.params ?? {}) as { id?: string };
  const objectId = [inPath, auditedId, accountIn(request)].find((id) => id && SOME_ID.test(id)) ?? null;
  await recordAudit(db, {
    at: new Date(),
    action: audit === 'account.connect' ? await connectOf(db, objectId, status) : audit,
    status,
    apiKeyId: request.caller?.apiKeyId ?? null,
    address,
    requestId,
    objectId,
  });
}

/** Anything else is no id, and may be anything. */
const SOME_ID = /^[a-z]{2,6}_[0-9a-z]{26}$/;

function accountIn({ body }: FastifyRequest): string | null {
  const id = (body as { account_id?: unknown } | null | undefined)?.account_id;
  return typeof id === 'string' && isId('account', id) ? id : null;
}

/** Records that a mailbox was connected, or was not, by a call that is not under /api/v1. */
export async function recordConnect(db: Db, call: Omit<AuditedCall, 'at' | 'action'>): Promise<void> {
  await recordAudit(db, { ...call, at: new Date(), action: await connectOf(db, call.objectId, call.status) });
}

/** Whether an account was connected for the first time; while it was not, whether the caller meant one that is there. */
async function connectOf(db: Db, accountId: string | null, status: number): Promise<AuditAction> {
  if (accountId === null) return 'account.connect';
  if (status >= 400) return 'account.reconnect';
  return (await lastConnect(db, accountId)) === 'account.add' ? 'account.connect' : 'account.reconnect';
}
