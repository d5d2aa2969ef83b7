import Type from 'typebox';
import { DateTime, Nullable } from './common.ts';

const HIT = {
  tracking_id: Type.String({ description: '`trk_…` from the response to the send' }),
  label: Nullable(Type.String({ description: '`tracking_options.label` of the send; null: none was given' })),
  message_id: Type.String({ description: 'Message-ID with its angle brackets' }),
  email_id: Type.String({ description: '`email_…` of the sent email' }),
  date: DateTime('when the picture was loaded or the link followed'),
  ip: Type.String({
    description: "IP address of the reader, or of the proxy through which the reader's provider loads images",
  }),
  user_agent: Type.String({ description: 'empty: the request had none' }),
};

/** Data of `tracking.open`: a reader loaded the pixel of a sent email. */
export const TrackingOpenData = Type.Object(HIT);
export type TrackingOpenData = Type.Static<typeof TrackingOpenData>;

/** Data of `tracking.click`: a reader followed a link of a sent email. */
export const TrackingClickData = Type.Object({ ...HIT, url: Type.String({ description: 'target of the link' }) });
export type TrackingClickData = Type.Static<typeof TrackingClickData>;
