import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { WORKFLOWS } from '../../../src/workflows/names.ts';

/** The key of all tests: recorded histories can only be read with the key that encrypted them. */
export const TEST_KEY = createHash('sha256').update('histories of the tests').digest();

const { History } = proto.temporal.api.history.v1;

export interface RecordedRun {
  workflowId: string;
  history: ReturnType<typeof History.decode>;
}

/** The text of a file; the SDK's own JSON of histories needs one copy of protobufjs, and npm installs several. */
function toText({
  workflowId,
  history,
}: {
  workflowId: string;
  history: Parameters<typeof History.encode>[0];
}): string {
  // workers and their own queues are named after the machine: <pid>@<host>
  const bytes = History.encode(withoutHost(history) as typeof history).finish();
  return `${JSON.stringify({ workflowId, history: Buffer.from(bytes).toString('base64') })}\n`;
}

/** The run that is recorded in this text. */
export function parseRecordedRun(text: string): RecordedRun {
  const { workflowId, history } = JSON.parse(text) as { workflowId: string; history: string };
  return { workflowId, history: History.decode(Buffer.from(history, 'base64')) };
}

function withoutHost(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(`@${hostname()}`, '@worker');
  if (Array.isArray(value)) return value.map(withoutHost);
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || 'unsigned' in value) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutHost(inner)]));
}

/** The features of a history, by the events in it; the first is how it ended. */
const FEATURES = {
  failed: 'workflowExecutionFailedEventAttributes',
  cancelled: 'workflowExecutionCanceledEventAttributes',
  continued: 'workflowExecutionContinuedAsNewEventAttributes',
  completed: 'workflowExecutionCompletedEventAttributes',
  local: 'markerRecordedEventAttributes',
  activity: 'activityTaskScheduledEventAttributes',
  'activity-failed': 'activityTaskFailedEventAttributes',
  'activity-timed-out': 'activityTaskTimedOutEventAttributes',
  'activity-cancelled': 'activityTaskCanceledEventAttributes',
  timer: 'timerStartedEventAttributes',
  'timer-cancelled': 'timerCanceledEventAttributes',
  signal: 'workflowExecutionSignaledEventAttributes',
  update: 'workflowExecutionUpdateAcceptedEventAttributes',
  child: 'startChildWorkflowExecutionInitiatedEventAttributes',
  'child-failed': 'childWorkflowExecutionFailedEventAttributes',
} as const;

const OURS = new Set<string>(Object.values(WORKFLOWS));

/** Longer histories only repeat themselves. */
const MAX_EVENTS = 200;

/**
 * Saves histories of the namespace into `dir`: of each of our workflow types one for every set of features, named after them.
 * Existing files stay unchanged.
 */
export async function recordHistories(client: Client, dir: string): Promise<void> {
  mkdirSync(dir, { recursive: true });
  for await (const { workflowId, runId, type } of client.workflow.list()) {
    if (!OURS.has(type)) continue;
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    const events = history.events ?? [];
    if (events.length > MAX_EVENTS) continue;
    const features = Object.entries(FEATURES).flatMap(([name, attributes]) =>
      events.some((event) => event[attributes]) ? [name] : [],
    );
    // a run that has not started shows nothing
    if (features.length === 0) continue;
    try {
      writeFileSync(join(dir, `${[type, ...features].join('.')}.json`), toText({ workflowId, history }), {
        flag: 'wx',
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}
