import { isUnavailable } from '../outage.ts';
import type { DeliverDeps, ResultStore } from './attempts.ts';
import { type AttemptResult, makeDue, makeRunsDue, recordAttemptResults } from './delivery-state.ts';
import type { DeliveryTarget } from './due-deliveries.ts';
import { changesHealth, type EndpointHealth, outcomeOf, recordOutcomes } from './endpoint-health.ts';
import { createRecordQueue } from './record-queue.ts';

interface Entry {
  result: AttemptResult;
  target: DeliveryTarget;
}

type Deps = Pick<DeliverDeps, 'db' | 'logger' | 'hurry'>;

/** Stores results of attempts, many in one statement, and what they say of their endpoints. */
export function createResultStore(
  deps: Deps,
): ResultStore & { pending(deliveryId: string): Promise<void> | undefined } {
  const { db, logger } = deps;
  /** as the last result that changed it has left it */
  const health = new Map<string, EndpointHealth & { notedAt: Date }>();

  const queue = createRecordQueue<Entry>({
    async write(entries) {
      await recordAttemptResults(
        db,
        entries.map(({ result }) => result),
      );
      for (const [endpointId, ofEndpoint] of byEndpoint(entries)) await noteHealth(endpointId, ofEndpoint);
    },
    isTemporary: isUnavailable,
    onError: (err, count) => logger.warn({ err, count }, 'could not store the results of deliveries yet'),
    onGivenUp: (err, { result: { deliveryId, number } }) =>
      logger.error({ err, deliveryId, number }, 'gave up storing the result of a delivery'),
  });

  async function noteHealth(endpointId: string, entries: readonly Entry[]): Promise<void> {
    const outcomes = entries.map(({ result }) => outcomeOf(result.httpStatus));
    const loaded = entries.at(-1)?.target;
    const noted = health.get(endpointId);
    const known = noted && loaded && noted.notedAt < loaded.loadedAt ? loaded : (noted ?? loaded);
    if (!known || !changesHealth(known, outcomes, new Date())) return;
    const notedAt = new Date();
    const stored = await recordOutcomes(db, endpointId, outcomes);
    if (!stored) return;
    const { change, ...now } = stored;
    health.set(endpointId, { ...now, notedAt });
    if (change === undefined) return;
    const until = now.breakerUntil;
    logger.warn(
      { endpointId, until },
      change === 'opened' ? 'a webhook endpoint does not respond' : 'a webhook endpoint is back',
    );
    // other results do not wait for that; a refused call says nothing of those that wait
    if (change === 'closed' && outcomes.includes('success')) void wakeWaiting(endpointId);
  }

  /** What waits for its next attempt makes it now. */
  async function wakeWaiting(endpointId: string): Promise<void> {
    try {
      await makeDue(db, endpointId);
      await deps.hurry?.(await makeRunsDue(db, endpointId));
    } catch (err) {
      logger.warn({ err, endpointId }, 'deliveries that wait for an endpoint that is back go on by their schedule');
    }
  }

  return {
    add: (result, target) => queue.add(result.deliveryId, { result, target }),
    pending: (deliveryId) => queue.pending(deliveryId),
    openUntil({ id, openUntil, loadedAt }) {
      const noted = health.get(id);
      return noted && noted.notedAt >= loadedAt ? noted.openUntil : openUntil;
    },
  };
}

function byEndpoint(entries: readonly Entry[]): Map<string, Entry[]> {
  const found = new Map<string, Entry[]>();
  for (const entry of entries) {
    const { endpointId } = entry.result;
    found.set(endpointId, [...(found.get(endpointId) ?? []), entry]);
  }
  return found;
}
