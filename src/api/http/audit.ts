import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AuditAction } from '../../contract/audit.ts';
import { ERRORS } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import { lastConnect } from '../../db/queries/accounts.ts';
import { type AuditedCall, nameOf, recordAudit } from '../../db/access/audit.ts';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** action under which the audit log records calls of the route */
    audit?: AuditAction;
  }
  interface FastifyRequest {
    /** id of the object that the call created */
    auditedId: string | null;
    /** name of the object in the path, before the call changed it */
    auditedName: string | null;
  }
}

/**
 * Records calls of routes with `audit`, refused calls included, before their response is sent. A record holds ids and
 * names, the address and the outcome, never the rest of the call. Failures to store a record are logged.
 */
export function auditCalls(app: FastifyInstance, { db, logger }: { db: Db; logger: Logger }): void {
  app.decorateRequest('auditedId', null);
  app.decorateRequest('auditedName', null);
  app.addHook('preHandler', async (request) => {
    const { id } = (request.params ?? {}) as { id?: string };
    if (request.routeOptions.config.audit === undefined || id === undefined || !SOME_ID.test(id)) return;
    request.auditedName = await nameOf(db, id);
  });
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
      logger.error({ err, ...call, apiKeyId: request.caller?.apiKeyId }, 'could not store audit record');
    });
    // an unavailable dependency must not delay the response that reports it
    if (reply.statusCode < 500) await recorded;
    return payload;
  });
}

/** Omits calls without effect: unauthenticated or rate-limited ones, which can be many, and replayed responses. */
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
    objectName: request.auditedName ?? (objectId === null ? null : await nameOf(db, objectId)),
    ...(request.caller ? { actorName: request.caller.apiKeyName } : {}),
  });
}

/** Other values come from the caller and can be anything. */
const SOME_ID = /^[a-z]{2,6}_[0-9a-z]{26}$/;

function accountIn({ body }: FastifyRequest): string | null {
  const id = (body as { account_id?: unknown } | null | undefined)?.account_id;
  return typeof id === 'string' && isId('account', id) ? id : null;
}

/** Records the outcome of a connect by a call outside /api/v1. */
export async function recordConnect(db: Db, call: Omit<AuditedCall, 'at' | 'action' | 'objectName'>): Promise<void> {
  const { objectId, status } = call;
  const objectName = objectId === null ? null : await nameOf(db, objectId);
  await recordAudit(db, { ...call, objectName, at: new Date(), action: await connectOf(db, objectId, status) });
}

/** Tells a connect from a reconnect; a failed call counts as a reconnect if it named an existing account. */
async function connectOf(db: Db, accountId: string | null, status: number): Promise<AuditAction> {
  if (accountId === null) return 'account.connect';
  if (status >= 400) return 'account.reconnect';
  return (await lastConnect(db, accountId)) === 'account.add' ? 'account.connect' : 'account.reconnect';
}
