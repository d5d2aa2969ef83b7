import { channel } from 'node:diagnostics_channel';

/** The measurements of this process's work. Ids and classes only: they become labels of metrics. */
export interface Measurements {
  /** a login at an IMAP server, from the connect on */
  imapLogin: { outcome: 'accepted' | 'refused' | 'failed' };
  /** a message given to an SMTP server; `unknown`: it may have been accepted */
  smtpSubmission: { outcome: 'accepted' | 'rejected' | 'refused_login' | 'failed' | 'unknown' };
  /** a request for an access token; otherwise whose fault it is that it failed (src/oauth/faults.ts) */
  oauthToken: { outcome: 'issued' | 'owner' | 'app' | 'provider' };
  /** emails that were new to the store, committed */
  ingested: { source: 'live' | 'api' | 'initialSync'; count: number };
  /** stored emails that were reparsed; `incomplete`: cut short again, `unreadable`: their source is missing */
  reparsed: { outcome: 'unchanged' | 'changed' | 'incomplete' | 'unreadable'; count: number };
  /** an attempt of a webhook delivery */
  webhookAttempt: {
    endpointId: string;
    outcome: 'delivered' | 'retrying' | 'failed';
    /** null: no response */
    httpStatus: number | null;
    durationMs: number;
    /** from the commit of the event to the end of the attempt; null: a replay or a retry by hand, however old the event is */
    sinceCommitMs: number | null;
  };
  /** deliveries that were skipped, since the endpoint is disabled or deleted */
  webhookSkipped: { endpointId: string; count: number };
}

const name = (what: keyof Measurements) => `email-mailbox-api:${what}`;

/** Publishes a measurement; costs nothing without a listener. */
export function measured<K extends keyof Measurements>(what: K, measurement: Measurements[K]): void {
  channel(name(what)).publish(measurement);
}

/** Calls `listener` for each measurement of that kind in this process. Returns a function that stops it. */
export function onMeasured<K extends keyof Measurements>(
  what: K,
  listener: (measurement: Measurements[K]) => void,
): () => void {
  const receive = (message: unknown) => listener(message as Measurements[K]);
  channel(name(what)).subscribe(receive);
  return () => void channel(name(what)).unsubscribe(receive);
}
