import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { Logger } from '../runtime/logger.ts';
import { currentRequestId, withRequestId } from '../runtime/request-context.ts';
import { REQUEST_ID_HEADER, REQUEST_ID_MEMO, WORKFLOWS } from '../workflows/names.ts';

/*
 * The path of an X-Request-Id: the client writes it into the header and the memo of each workflow that it starts, the
 * workflow interceptors (src/workflows/interceptors.ts) pass the header on to activities and children, and the activity's
 * log lines bear it.
 */

/** Makes workflows bear the id of the API call that starts them; the memo shows it in Temporal's UI. */
export const requestIdOfCaller: WorkflowClientInterceptor = {
  startWithDetails(input, next) {
    const { headers, options } = input;
    return next({ ...input, headers: withHeader(headers), options: withMemo(options) });
  },
  signalWithStart(input, next) {
    // the others that start so (an account, an import) outlive the call
    if (input.workflowType !== WORKFLOWS.syncMailbox) return next(input);
    return next({ ...input, headers: withHeader(input.headers), options: withMemo(input.options) });
  },
  startUpdateWithStart(input, next) {
    const { workflowStartHeaders: headers, workflowStartOptions: options } = input;
    return next({ ...input, workflowStartHeaders: withHeader(headers), workflowStartOptions: withMemo(options) });
  },
};

function withHeader(headers: Headers): Headers {
  const requestId = currentRequestId();
  if (requestId === undefined) return headers;
  return { ...headers, [REQUEST_ID_HEADER]: defaultPayloadConverter.toPayload(requestId) };
}

function withMemo<T extends { memo?: Record<string, unknown> }>(options: T): T {
  const requestId = currentRequestId();
  return requestId === undefined ? options : { ...options, memo: { ...options.memo, [REQUEST_ID_MEMO]: requestId } };
}

/** Runs each activity of an API call in the context of that call, and logs when it has finished. */
export function activitiesOfRequests(logger: Logger): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      async execute(input, next) {
        const header = input.headers[REQUEST_ID_HEADER];
        if (header === undefined) return next(input);
        return withRequestId(defaultPayloadConverter.fromPayload<string>(header), async () => {
          const began = performance.now();
          let outcome = 'failed';
          try {
            const result = await next(input);
            outcome = 'completed';
            return result;
          } finally {
            const { activityType, attempt, workflowExecution } = info;
            const durationMs = Math.round(performance.now() - began);
            const line = { activityType, attempt, workflowId: workflowExecution?.workflowId, durationMs, outcome };
            logger.info(line, 'activity finished');
          }
        });
      },
    },
  });
}
