import { describe, expect, it } from '@jest/globals';
import { callHeaders } from '../../../src/webhooks/attempt/sign.ts';

const call = {
  type: 'email.new' as const,
  deliveryId: 'whc_1',
  eventId: 'evt_1',
  body: Buffer.from('{}'),
  at: new Date('2026-03-04T05:06:07Z'),
  secret: `whsec_${btoa('secret')}`,
};

describe('headers of a call', () => {
  it('are those of the endpoint and of the product', () => {
    const headers = callHeaders([{ name: 'Authorization', value: 'Bearer abc' }], call);
    expect(headers.slice(0, 2)).toEqual([
      { name: 'Authorization', value: 'Bearer abc' },
      { name: 'User-Agent', value: expect.stringMatching(/^email-mailbox-api\/\d+\.\d+\.\d+$/) },
    ]);
    expect(headers.map(({ name }) => name).slice(2)).toEqual([
      'Content-Type',
      'X-Email-Engine-Event',
      'X-Email-Engine-Delivery',
      'X-Email-Engine-Signature',
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature',
    ]);
  });

  it('keep a User-Agent of the endpoint', () => {
    const names = callHeaders([{ name: 'user-agent', value: 'mine' }], call).filter(({ name }) =>
      /^user-agent$/i.test(name),
    );
    expect(names).toEqual([{ name: 'user-agent', value: 'mine' }]);
  });

  it.each([
    'Host',
    'content-type',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Expect',
    'X-Email-Engine-Signature',
    'Webhook-Id',
  ])('never take %s from the endpoint', (name) => {
    const headers = callHeaders([{ name, value: 'forged' }], call);
    expect(headers.filter(({ value }) => value === 'forged')).toEqual([]);
  });
});
