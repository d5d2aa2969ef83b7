import type { EventType } from '../contract/events.ts';
import { isReservedHeader } from '../contract/webhook.ts';
import { type Signing, signatureHeaders } from './sign.ts';

export interface CallHeader {
  name: string;
  value: string;
}

const USER_AGENT: CallHeader = { name: 'User-Agent', value: 'email-mailbox-api' };

/** All headers of a call but Content-Length and those of the connection (SPEC "Request headers"); the endpoint's own first. */
export function callHeaders(
  own: readonly CallHeader[],
  call: Signing & { type: EventType; deliveryId: string },
): CallHeader[] {
  const ours = {
    'Content-Type': 'application/json',
    'X-Email-Engine-Event': call.type,
    'X-Email-Engine-Delivery': call.deliveryId,
    ...signatureHeaders(call),
  };
  const sent = own.filter(({ name }) => !isReservedHeader(name));
  if (!sent.some(({ name }) => name.toLowerCase() === 'user-agent')) sent.push(USER_AGENT);
  return [...sent, ...Object.entries(ours).map(([name, value]) => ({ name, value }))];
}
