import { type Measurements, measured } from '../../runtime/measure.ts';

/** Counts one attempt of a delivery, once its result is stored. The worker's `/metrics` shows it; see src/metrics. */
export function noteAttempt(attempt: Measurements['webhookAttempt']): void {
  measured('webhookAttempt', attempt);
}

/** Counts deliveries that were given up without an attempt. */
export function noteSkipped(skipped: Measurements['webhookSkipped']): void {
  measured('webhookSkipped', skipped);
}
