import { isUnavailable } from '../../outage.ts';
import type { DeliverDeps, ResultStore } from '../attempt/attempts.ts';
import { type AttemptResult, recordAttemptResults } from './delivery-state.ts';
import type { DeliveryTarget } from '../attempt/due-deliveries.ts';
import {
  type CallOutcome,
  changesHealth,
  type EndpointHealth,
  type EndpointOutcomes,
  outcomeOf,
  recordOutcomes,
  type StoredHealth,
} from '../attempt/endpoint-health.ts';
import { createRecordQueue } from '../attempt/record-queue.ts';

interface Entry {
  result: AttemptResult;
  target: DeliveryTarget;
}

type Deps = Pick<DeliverDeps, 'db' | 'logger'> & {
  /** Called with the first success of an endpoint since its breaker opened; `successBefore`: the one before, null: there was none. */
  onRecovered(endpointId: string, successBefore: Date | null): void;
};

/** Stores results of attempts, many in one statement, and the health of their endpoints that follows from them. */
export function createResultStore(
  deps: Deps,
): ResultStore & { pending(deliveryId: string): Promise<void> | undefined } {
  const { db, logger } = deps;
  /** the health of endpoints after the last results that changed it; `notedAt` as `loadedAt` of a target */
  const health = new Map<string, EndpointHealth & { notedAt: number }>();

  const queue = createRecordQueue<Entry>({
    async write(entries) {
      await recordAttemptResults(
        db,
        entries.map(({ result }) => result),
      );
      await noteHealth(entries);
    },
    isTemporary: isUnavailable,
    onError: (err, count) => logger.warn({ err, count }, 'could not store delivery results; will retry'),
    onGivenUp: (err, { result: { deliveryId, number } }) =>
      logger.error({ err, deliveryId, number }, 'gave up storing delivery result'),
  });

  async function noteHealth(entries: readonly Entry[]): Promise<void> {
    const notedAt = performance.now();
    const changing = byUrl(entries).filter(({ endpointId, outcomes, target }) => {
      const noted = health.get(endpointId);
      return changesHealth(noted && noted.notedAt >= target.loadedAt ? noted : target, outcomes, new Date());
    });
    if (changing.length === 0) return;
    const stored = await recordOutcomes(db, changing);
    for (const { endpointId, url } of changing) {
      const now = stored.get(endpointId);
      if (now?.url !== url) continue;
      health.set(endpointId, { ...now, notedAt });
      if (now.change) logChange(endpointId, now);
      if (now.hasRecovered) deps.onRecovered(endpointId, now.successBefore);
    }
  }

  function logChange(endpointId: string, { change, breakerUntil }: StoredHealth): void {
    logger.warn(
      { endpointId, until: breakerUntil },
      change === 'opened' ? 'webhook endpoint not responding; probing it' : 'webhook endpoint responding again',
    );
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

/** Outcomes by endpoint and URL, with its latest loaded state. */
function byUrl(entries: readonly Entry[]): (EndpointOutcomes & { target: DeliveryTarget })[] {
  const found = new Map<string, EndpointOutcomes & { outcomes: CallOutcome[]; target: DeliveryTarget }>();
  for (const { result, target } of entries) {
    const { endpointId, url } = result;
    const key = `${endpointId} ${url}`;
    const of = found.get(key) ?? { endpointId, url, outcomes: [], target };
    of.outcomes.push(outcomeOf(result.httpStatus));
    found.set(key, Object.assign(of, { target }));
  }
  return [...found.values()];
}
