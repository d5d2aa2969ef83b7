import { createHmac } from 'node:crypto';
import type { EventType } from '../../contract/events.ts';
import { isReservedHeader } from '../../contract/webhook.ts';
import { VERSION } from '../../runtime/version.ts';

/** The data that signs a call. */
export interface Signing {
  /** `evt_…` */
  eventId: string;
  /** the exact bytes that are sent */
  body: Buffer;
  /** of this attempt */
  at: Date;
  secret: string;
  /** a secret that was replaced by a rotation and still signs together with the new one */
  previousSecret?: string | undefined;
}

/**
 * The signature headers of a call: `X-Email-Engine-Signature`, keyed by the UTF-8 bytes of the whole secret
 * string, and those of Standard Webhooks, keyed by the bytes that the secret encodes.
 */
export function signatureHeaders({ eventId, body, at, secret, previousSecret }: Signing): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const secrets = previousSecret === undefined ? [secret] : [secret, previousSecret];
  return {
    'X-Email-Engine-Signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    'webhook-id': eventId,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map((key) => standardSignature(key, `${eventId}.${timestamp}.`, body)).join(' '),
  };
}

/** https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, symmetric scheme */
function standardSignature(secret: string, head: string, body: Buffer): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return `v1,${createHmac('sha256', key).update(head).update(body).digest('base64')}`;
}

export interface CallHeader {
  name: string;
  value: string;
}

const USER_AGENT: CallHeader = { name: 'User-Agent', value: `email-mailbox-api/${VERSION}` };

/** All headers of a call except Content-Length and those of the connection; headers of the endpoint come first. */
export function callHeaders(
  own: readonly CallHeader[],
  call: Signing & { type: EventType; deliveryId: string },
): CallHeader[] {
  const callHeadersByName = {
    'Content-Type': 'application/json',
    'X-Email-Engine-Event': call.type,
    'X-Email-Engine-Delivery': call.deliveryId,
    ...signatureHeaders(call),
  };
  const sent = own.filter(({ name }) => !isReservedHeader(name));
  if (!sent.some(({ name }) => name.toLowerCase() === 'user-agent')) sent.push(USER_AGENT);
  return [...sent, ...Object.entries(callHeadersByName).map(([name, value]) => ({ name, value }))];
}
