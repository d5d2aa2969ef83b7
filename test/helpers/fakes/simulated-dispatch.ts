import { randomBytes } from 'node:crypto';
import { MockActivityEnvironment } from '@temporalio/testing';
import type { AttemptedDeliveries, NextAttempt } from '../../../src/activities/deliver.ts';
import { createDeliverActivities } from '../../../src/activities/deliver.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { openDatabase } from '../../../src/db/open.ts';
import { LINES, recordEvents } from '../../../src/db/outbox.ts';
import { createEndpoint } from '../../../src/db/queries/endpoints.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { createCallSlots } from '../../../src/webhooks/attempt/call-slots.ts';
import type { PostOutcome, PostRequest } from '../../../src/webhooks/attempt/post.ts';
import { claimDeliveries } from '../../../src/webhooks/dispatch/claim.ts';
import { type ClaimedRun, unstartedRuns } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { listDueLines } from '../../../src/webhooks/dispatch/due-lines.ts';
import { Relay } from '../../../src/webhooks/dispatch/relay.ts';
import { markStarted } from '../../../src/webhooks/log/delivery-state.ts';
import { VirtualTime, withVirtualClock } from './virtual-time.ts';
import { type TestDatabase, testDatabase } from '../servers/postgres.ts';
import { storeAccount } from '../product/stored-account.ts';

const SCHEDULE_MS = [1_000, 5_000, 20_000];
const EVENT = 'email.update';
/** A run that takes longer waits for its endpoint: see turns.ts. */
const SLOW_MS = 300;

/** What an endpoint answers to a call, and after how many ms. */
export interface Answer {
  status: number;
  afterMs: number;
  body?: string;
}

/** One call of an endpoint. */
export interface Call {
  endpointId: string;
  objectId: string;
  sequence: number;
  /** ms since the start of the simulation */
  at: number;
  endedAt: number | undefined;
  status: number | undefined;
  /** runs that made first attempts when it began and had not waited long for their endpoint; of these, runs of poor lines */
  working: number;
  poorWorking: number;
}

/**
 * The relay, its claims, the attempts and their results as they are, on a real store in virtual time. Simulated are the
 * endpoints, and Temporal: a run costs some ms of a machine that does one thing at a time, and is never lost.
 */
export class SimulatedDispatch {
  readonly time = new VirtualTime();
  readonly calls: Call[] = [];
  readonly #test: TestDatabase;
  readonly #runMs: number;
  readonly #database: Database;
  readonly #activities: ReturnType<typeof createDeliverActivities>;
  readonly #answers = new Map<string, (call: Call) => Answer>();
  readonly #attempting = new Map<string, { isPoor: boolean; since: number }>();
  readonly #poor = new Set<string>();
  readonly #hurried = new Map<string, () => void>();
  readonly #secrets = createSecrets({ current: randomBytes(32) });
  readonly #relay: Relay;
  #busyUntil = 0;
  #wake = () => {};
  failure: Error | undefined;

  /** `runMs`: CPU of a run here and in Temporal. */
  static async start({ runMs = 20 } = {}): Promise<SimulatedDispatch> {
    const test = await testDatabase({ max: 1 });
    await withVirtualClock(test.database.pool);
    return new SimulatedDispatch(test, runMs);
  }

  private constructor(test: TestDatabase, runMs: number) {
    this.#test = test;
    this.#runMs = runMs;
    this.#database = openDatabase(test.url, { max: 4 });
    this.time.install();
    const { db } = this.#database;
    const logger = createLogger('silent', 'test');
    this.#activities = createDeliverActivities({
      db,
      secrets: this.#secrets,
      poster: { post: (request) => this.#answer(request) },
      slots: createCallSlots(() => 10),
      logger,
      webhook: { retryScheduleMs: SCHEDULE_MS, timeoutMs: 30_000 },
      onAttempts: (...attempts) => this.#relay.attempts(...attempts),
      hurry: async (workflowId) => this.#hurried.get(workflowId)?.(),
    });
    this.#relay = new Relay({
      due: (after) => listDueLines(db, { after }),
      claim: async (turns) => {
        const claimed = await claimDeliveries(db, turns);
        for (const { turn, runs } of claimed) if (turn.isPoor) for (const run of runs) this.#poor.add(run.workflowId);
        return claimed;
      },
      unstarted: () => unstartedRuns(db, 10_000),
      start: (run) => this.#startRun(run),
      markStarted: (runs) => markStarted(db, runs),
      listen: (wake) => {
        this.#wake = wake;
        return { close: async () => {} };
      },
      logger,
    });
  }

  get now(): number {
    return this.time.elapsed;
  }

  account = () => storeAccount(this.#database);

  /** An endpoint for all events of the account. */
  async endpoint(accountId: string, answer: (call: Call) => Answer): Promise<string> {
    const { id } = await createEndpoint(this.#database.db, this.#secrets, {
      url: 'https://hook.test/',
      description: null,
      enabled: true,
      triggerEvents: [EVENT],
      accountIds: [accountId],
      headers: [{ name: 'X-Account', value: accountId }],
      secret: `whsec_${randomBytes(32).toString('base64')}`,
    });
    this.#answers.set(id, answer);
    return id;
  }

  /** Events of these objects in one transaction. */
  async happen(accountId: string, objectIds: readonly string[]): Promise<void> {
    const createdAt = new Date();
    const events = objectIds.map((objectId) => ({ type: EVENT, objectId, data: { id: objectId }, createdAt }) as const);
    await this.#database.db.transaction((tx) => recordEvents(tx, accountId, events));
    this.#wake();
  }

  /** Makes the pending deliveries of these objects those of a replay. */
  async queueAsReplayed(objectIds: readonly string[]): Promise<void> {
    await this.#database.pool.query(
      `update pending_deliveries set line = ${LINES.replay}, replay_id = 'replay' where object_id = any($1)`,
      [objectIds],
    );
  }

  /** Lets time pass until `isOver`; throws what has failed in it. */
  async run(isOver: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isOver())) {
      await this.time.next(this.#database.pool);
      if (this.failure) throw this.failure;
    }
  }

  /** Deliveries by status. */
  async counts(): Promise<Record<string, number>> {
    const { rows } = await this.#database.pool.query<{ status: string; count: number }>(
      'select status, count(*)::int as count from deliveries group by status',
    );
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
  }

  async stop(): Promise<void> {
    this.time.restore();
    await this.#relay.stop();
    await this.#database.close();
    await this.#test.drop();
  }

  async #startRun(run: ClaimedRun): Promise<boolean> {
    this.#busyUntil = Math.max(this.#busyUntil, this.now) + this.#runMs;
    await this.#pass(this.#busyUntil - this.now);
    this.#execute(
      run.workflowId,
      run.deliveries.map(({ id }) => id),
    ).catch((error: unknown) => (this.failure = new Error('a run failed', { cause: error })));
    return true;
  }

  /** What the workflow `deliverWebhooks` does. */
  async #execute(workflowId: string, deliveryIds: string[]): Promise<void> {
    let result = await this.#attempt(workflowId, { deliveryIds });
    while (result.notAttempted.length > 0) result = await this.#attempt(workflowId, { deliveryIds });
    if (deliveryIds.length > 1) return this.#executeAlone(result.retrying);
    for (let [next] = result.retrying; next; [next] = result.retrying) {
      await Promise.race([this.#pass(next.delayMs), this.#hurry(workflowId)]);
      result = await this.#attempt(workflowId, { deliveryIds, after: next.attempts });
    }
  }

  async #executeAlone(retrying: readonly NextAttempt[]): Promise<void> {
    await Promise.all(retrying.map(({ id, workflowId }) => this.#execute(workflowId, [id])));
  }

  async #attempt(workflowId: string, input: { deliveryIds: string[]; after?: number }): Promise<AttemptedDeliveries> {
    const environment = new MockActivityEnvironment({ workflowExecution: { workflowId, runId: workflowId } });
    const isFirst = input.after === undefined;
    if (isFirst) this.#attempting.set(workflowId, { isPoor: this.#poor.has(workflowId), since: this.now });
    try {
      return await environment.run(this.#activities.attemptDeliveries, { ...input, beginWithinMs: 60_000 });
    } finally {
      this.#attempting.delete(workflowId);
    }
  }

  #pass(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  #hurry(workflowId: string): Promise<void> {
    return new Promise((resolve) => this.#hurried.set(workflowId, resolve));
  }

  async #answer({ body }: PostRequest): Promise<PostOutcome> {
    const event = JSON.parse(body.toString()) as { endpoint_id: string; sequence: number; data: { id: string } };
    const { endpoint_id: endpointId, sequence } = event;
    const working = [...this.#attempting.values()].filter(({ since }) => this.now - since < SLOW_MS);
    const call: Call = {
      ...{ endpointId, sequence, objectId: event.data.id, at: this.now, endedAt: undefined, status: undefined },
      ...{ working: working.length, poorWorking: working.filter(({ isPoor }) => isPoor).length },
    };
    this.calls.push(call);
    const {
      status,
      afterMs,
      body: responseBody = '',
    } = this.#answers.get(endpointId)?.(call) ?? { status: 500, afterMs: 1 };
    await this.#pass(afterMs);
    call.endedAt = this.now;
    call.status = status;
    return {
      httpStatus: status,
      responseBody,
      retryAfter: undefined,
      error: null,
      errorKind: null,
      durationMs: afterMs,
    };
  }
}
