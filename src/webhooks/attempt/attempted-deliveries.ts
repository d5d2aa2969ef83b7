/* What a run is started with, what it asks for attempts with and what it is answered: fields of recorded histories. */

/** What a run is started with. */
export interface DeliverInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** the endpoint failed last: no local activity, which would hold a slot of the worker while it does not respond */
  regular?: boolean;
}

export interface AttemptInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** attempts that the delivery of a run of one had when the next one was asked for; absent: the run's first */
  after?: number;
  /** no call is begun later than this, ms; deliveries that remain are returned as `notAttempted` */
  beginWithinMs: number;
  /** an operator reset the run: what has ended is attempted again */
  reset?: boolean;
}

/** A delivery that will be attempted again by a run of its own. */
export interface NextAttempt {
  id: string;
  workflowId: string;
  /** attempts that it has had */
  attempts: number;
  /** of the schedule */
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
  /** not attempted, or failed: they wait in the store, and go to a later run */
  waiting: number;
  /** why, of a run of one */
  waitingFor?: string;
  /** given up */
  failed: string[];
  /** for lack of time */
  notAttempted: string[];
  last?: LastAttempt;
}
