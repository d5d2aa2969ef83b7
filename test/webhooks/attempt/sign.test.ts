import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { signatureHeaders } from '../../../src/webhooks/attempt/sign.ts';

const at = new Date('2026-03-04T05:06:07.890Z');
const body = Buffer.from('{"object":"Event","data":{"text":"Grüße 📬"}}');

describe('signatures of calls', () => {
  it('agree with the example of the Standard Webhooks specification', () => {
    // https://github.com/standard-webhooks/standard-webhooks: the test vector of its libraries
    const headers = signatureHeaders({
      eventId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      body: Buffer.from('{"test": 2432232314}'),
      at: new Date(1614265330 * 1000),
      secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    });
    expect(headers['webhook-signature']).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
    expect(headers['webhook-timestamp']).toBe('1614265330');
  });

  it('key the sha256 header with the bytes of the whole secret, prefix included', () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const headers = signatureHeaders({ eventId: 'evt_1', body, at, secret });
    const expected = createHmac('sha256', Buffer.from(secret, 'utf8')).update(body).digest('hex');
    expect(headers['X-Email-Engine-Signature']).toBe(`sha256=${expected}`);
    expect(headers['webhook-id']).toBe('evt_1');
    expect(headers['webhook-timestamp']).toBe('1772600767');
  });

  it('use both secrets during a rotation; the sha256 header uses the new one alone', () => {
    const [secret, previousSecret] = [`whsec_${btoa('new')}`, `whsec_${btoa('old')}`];
    const one = signatureHeaders({ eventId: 'evt_1', body, at, secret });
    const both = signatureHeaders({ eventId: 'evt_1', body, at, secret, previousSecret });
    const old = signatureHeaders({ eventId: 'evt_1', body, at, secret: previousSecret });
    expect(both['webhook-signature']).toBe(`${one['webhook-signature']} ${old['webhook-signature']}`);
    expect(both['X-Email-Engine-Signature']).toBe(one['X-Email-Engine-Signature']);
  });
});
