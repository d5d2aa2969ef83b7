import { describe, expect, it } from '@jest/globals';
import { envelopeText } from '../../../src/contract/events.ts';

const event = {
  id: 'evt_1',
  type: 'email.new' as const,
  createdAt: new Date('2026-03-04T05:06:07.080Z'),
  accountId: 'acc_1',
  sequence: 42,
  epoch: null,
  data: '{"email":{"subject":"\\u0000 \\ud83d \\"}{"}}',
};

describe('the body of a call', () => {
  it('is the envelope of the event, with the stored data unchanged', () => {
    const text = envelopeText(event, 'we_1');
    expect(text.endsWith(`,"data":${event.data}}`)).toBe(true);
    expect(JSON.parse(text)).toEqual({
      object: 'Event',
      id: 'evt_1',
      type: 'email.new',
      created_at: '2026-03-04T05:06:07.080Z',
      account_id: 'acc_1',
      endpoint_id: 'we_1',
      sequence: 42,
      data: JSON.parse(event.data),
    });
  });

  it('has the epoch of an event from after a restore, and no such member before', () => {
    expect(JSON.parse(envelopeText({ ...event, epoch: 1764000000000 }, null))).toMatchObject({ epoch: 1764000000000 });
    expect(envelopeText(event, null)).not.toContain('epoch');
  });

  it('has the same bytes every time', () => {
    expect(envelopeText({ ...event }, 'we_1')).toBe(envelopeText(event, 'we_1'));
  });
});
