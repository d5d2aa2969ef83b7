import type {
  ActivityInput,
  LocalActivityInput,
  Next,
  StartChildWorkflowExecutionInput,
  WorkflowExecuteInput,
  WorkflowInboundCallsInterceptor,
  WorkflowInterceptors,
  WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow';
import { REQUEST_ID_HEADER, TRACE_HEADER } from './names.ts';

type Headers = WorkflowExecuteInput['headers'];

/** Passes on what a run was started with to its activities and children: the id of the API call, and its trace. */
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

/** Called by the SDK for each run. */
export function interceptors(): WorkflowInterceptors {
  const passOn = new PassOn();
  return { inbound: [passOn], outbound: [passOn] };
}
