import { envelopeText } from '../../contract/events.ts';
import type { Logger } from '../../runtime/logger.ts';
import type { Secrets } from '../../security/secrets.ts';
import type { DeliveryTarget, DueDelivery } from './due-deliveries.ts';
import type { Poster, PostOutcome } from './post.ts';
import { type CallHeader, callHeaders } from './sign.ts';

/** An endpoint that can be called. */
export interface OpenTarget {
  id: string;
  url: string;
  headers: CallHeader[];
  secret: string;
  previousSecret: string | undefined;
}

/** The endpoint with its secrets; undefined, with an error in the log, when they cannot be opened. */
export function openTarget(
  { secrets, logger }: { secrets: Pick<Secrets, 'open'>; logger: Logger },
  sealed: DeliveryTarget,
): OpenTarget | undefined {
  const open = (column: string, value: Buffer) =>
    secrets.open({ table: 'webhook_endpoints', column, id: sealed.id }, value);
  try {
    return {
      id: sealed.id,
      url: sealed.url,
      headers: JSON.parse(open('headers', sealed.headers)) as CallHeader[],
      secret: open('secret', sealed.secret),
      previousSecret: sealed.previousSecret ? open('previous_secret', sealed.previousSecret) : undefined,
    };
  } catch (err) {
    logger.error({ err, endpointId: sealed.id }, 'could not open the secrets of webhook endpoint');
    return undefined;
  }
}

/** One call: which delivery, to whom, when. */
export interface EndpointCall {
  delivery: DueDelivery;
  /** undefined: its secrets cannot be opened */
  target: OpenTarget | undefined;
  /** `data` of the event */
  data: string;
  at: Date;
  timeoutMs: number;
  /** cancels the call */
  signal: AbortSignal;
}

/** Signs and posts one delivery. Rejects only when the signal is aborted. */
export async function callEndpoint(poster: Pick<Poster, 'post'>, call: EndpointCall): Promise<PostOutcome> {
  const { delivery, target, data, at, timeoutMs, signal } = call;
  if (!target) {
    const error = 'the stored secret of the endpoint cannot be read';
    return { httpStatus: null, responseBody: null, retryAfter: undefined, error, errorKind: 'secret', durationMs: 0 };
  }
  const { id: deliveryId, eventId, eventType: type, accountId, eventCreatedAt: createdAt } = delivery;
  const { sequence, epoch, test } = delivery;
  const event = { id: eventId, type, createdAt, accountId, sequence, epoch, data, test };
  const body = Buffer.from(envelopeText(event, target.id));
  const { url, secret, previousSecret } = target;
  const headers = callHeaders(target.headers, { eventId, type, deliveryId, body, at, secret, previousSecret });
  return poster.post({ url, headers, body, timeoutMs, signal });
}

/** The `error` of an attempt that got this status; null for 2xx. */
export function describeStatus(httpStatus: number | null): string | null {
  if (isDelivered(httpStatus)) return null;
  const redirect = httpStatus !== null && httpStatus >= 300 && httpStatus < 400;
  return `the endpoint answered ${httpStatus}${redirect ? ': redirects are not followed' : ''}`;
}

/** Whether the endpoint took the call: 2xx. */
export function isDelivered(httpStatus: number | null): boolean {
  return httpStatus !== null && httpStatus >= 200 && httpStatus < 300;
}
