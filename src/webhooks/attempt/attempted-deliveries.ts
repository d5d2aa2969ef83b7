/* Inputs and results of the workflow `deliverWebhooks` and of its activity. Recorded histories have these fields. */

/** The input of a run. */
export interface DeliverInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** its endpoint failed last: a local activity would hold a slot of the worker while the endpoint does not respond */
  regular?: boolean;
}

export interface AttemptInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** in a run of one delivery: the attempts made before this one; absent: it is the run's first */
  after?: number;
  /** no call begins later than this, ms; the remaining deliveries are returned as `notAttempted` */
  beginWithinMs: number;
  /** an operator reset the run: deliveries that have ended are attempted again */
  reset?: boolean;
}

/** A delivery that its own run will attempt again. */
export interface NextAttempt {
  id: string;
  workflowId: string;
  /** attempts so far */
  attempts: number;
  /** retries left in the schedule */
  retriesLeft: number;
  delayMs: number;
}

/** The last attempt of a delivery, in words that operators read. */
export interface LastAttempt {
  /** 1 for the first of the delivery */
  number: number;
  /** ISO 8601 */
  at: string;
  httpStatus: number | null;
  error: string | null;
}

export interface AttemptedDeliveries {
  /** the execution that made the attempts */
  runId: string;
  delivered: number;
  skipped: number;
  retrying: NextAttempt[];
  /** deliveries that wait in the queue for a later run: not attempted, or failed */
  waiting: number;
  /** what the delivery of a run of one waits for */
  waitingFor?: string;
  /** deliveries that were given up */
  failed: string[];
  /** deliveries that were not attempted for lack of time */
  notAttempted: string[];
  last?: LastAttempt;
}
