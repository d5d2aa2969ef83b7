import {
  type ActivityInput,
  ApplicationFailure,
  type LocalActivityInput,
  log,
  type Next,
  type QueryInput,
  type SignalInput,
  type StartChildWorkflowExecutionInput,
  type UpdateInput,
  type WorkflowExecuteInput,
  type WorkflowInboundCallsInterceptor,
  workflowInfo,
  type WorkflowInterceptors,
  type WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow';
import { isIdOfType, isUnsealed, REQUEST_ID_HEADER, TRACE_HEADER, UNSEALED_TYPE } from './names.ts';

type Headers = WorkflowExecuteInput['headers'];

/** Passes the request id and the trace of a run on to its activities and child workflows. */
class PassOn implements WorkflowInboundCallsInterceptor, WorkflowOutboundCallsInterceptor {
  #passedOn: Headers = {};

  execute(input: WorkflowExecuteInput, next: Next<WorkflowInboundCallsInterceptor, 'execute'>): Promise<unknown> {
    const named = [REQUEST_ID_HEADER, TRACE_HEADER].map((name) => [name, input.headers[name]] as const);
    this.#passedOn = Object.fromEntries(named.filter(([, value]) => value !== undefined)) as Headers;
    return next(input);
  }

  scheduleActivity(input: ActivityInput, next: Next<WorkflowOutboundCallsInterceptor, 'scheduleActivity'>) {
    return next({ ...input, headers: { ...input.headers, ...this.#passedOn } });
  }

  scheduleLocalActivity(
    input: LocalActivityInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'scheduleLocalActivity'>,
  ) {
    return next({ ...input, headers: { ...input.headers, ...this.#passedOn } });
  }

  startChildWorkflowExecution(
    input: StartChildWorkflowExecutionInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'startChildWorkflowExecution'>,
  ) {
    return next({ ...input, headers: { ...input.headers, ...this.#passedOn } });
  }
}

/**
 * Refuses input from a program without our key, or copied from the history of another run. A run with such an input fails.
 * Such a signal is dropped: the run that received it must continue. An activity with such a result has failed.
 */
class RefuseUnsealed implements WorkflowInboundCallsInterceptor, WorkflowOutboundCallsInterceptor {
  async execute(input: WorkflowExecuteInput, next: Next<WorkflowInboundCallsInterceptor, 'execute'>): Promise<unknown> {
    const { workflowId, workflowType } = workflowInfo();
    if (input.args.some(isUnsealed) || !isIdOfType(workflowId, workflowType)) throw unsealed('start');
    return next(input);
  }

  async handleSignal(input: SignalInput, next: Next<WorkflowInboundCallsInterceptor, 'handleSignal'>): Promise<void> {
    if (!input.args.some(isUnsealed)) return next(input);
    log.warn('dropped a signal: its input was not sealed by this installation');
  }

  async handleUpdate(
    input: UpdateInput,
    next: Next<WorkflowInboundCallsInterceptor, 'handleUpdate'>,
  ): Promise<unknown> {
    if (input.args.some(isUnsealed)) throw unsealed('update');
    return next(input);
  }

  async handleQuery(input: QueryInput, next: Next<WorkflowInboundCallsInterceptor, 'handleQuery'>): Promise<unknown> {
    if (input.args.some(isUnsealed)) throw unsealed('query');
    return next(input);
  }

  scheduleActivity(input: ActivityInput, next: Next<WorkflowOutboundCallsInterceptor, 'scheduleActivity'>) {
    return next(input).then(sealedResult);
  }

  scheduleLocalActivity(
    input: LocalActivityInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'scheduleLocalActivity'>,
  ) {
    return next(input).then(sealedResult);
  }
}

function sealedResult(result: unknown): unknown {
  if (!isUnsealed(result)) return result;
  throw ApplicationFailure.nonRetryable('the result of this activity was not sealed for this run', UNSEALED_TYPE);
}

function unsealed(what: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(`the input of this ${what} was not sealed for this run`, UNSEALED_TYPE);
}

/** The interceptors of one run; the SDK calls this. */
export function interceptors(): WorkflowInterceptors {
  const [refuse, passOn] = [new RefuseUnsealed(), new PassOn()];
  return { inbound: [refuse, passOn], outbound: [refuse, passOn] };
}
