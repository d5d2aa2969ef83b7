import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { type ReplayWorkerOptions, Worker } from '@temporalio/worker';
import { createLogger } from '../../src/runtime/logger.ts';
import { createWorkerDataConverter } from '../../src/temporal/data-converter.ts';
import { installRuntime } from '../../src/temporal/runtime.ts';
import { WORKFLOWS } from '../../src/workflows/names.ts';
import { BUILT_WORKFLOWS } from '../helpers/product/built.ts';
import { parseRecordedRun, TEST_KEY } from '../helpers/assert/histories.ts';

/*
 * Runs that were recorded under this and earlier releases replay under the present workflows. One that does not would stall
 * in production: a change of a running workflow needs `patched()`.
 */
const DIR = join(import.meta.dirname, '..', 'histories');
const files = readdirSync(DIR, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.json'))
  .sort();

let options: ReplayWorkerOptions;
/** of the replay of each file; all are replayed by one worker, in sequence */
const errors = new Map<string, Error | undefined>();

beforeAll(async () => {
  installRuntime(createLogger('silent', 'test'));
  options = { workflowBundle: BUILT_WORKFLOWS, dataConverter: createWorkerDataConverter({ current: TEST_KEY }) };
  const replayed = files.values();
  for await (const { error } of Worker.runReplayHistories(options, files.map(read))) {
    errors.set(replayed.next().value as string, error);
  }
}, 120_000);

const read = (file: string) => parseRecordedRun(readFileSync(join(DIR, file), 'utf8'));

describe('recorded runs', () => {
  it.each(files)('%s replays', (file) => {
    expect([...errors.keys()]).toContain(file);
    expect(errors.get(file)).toBeUndefined();
  });

  it('exist for every workflow', () => {
    const types = new Set(files.map((file) => relative('.', file).split(/[/\\]/).at(-1)?.split('.')[0]));
    expect(Object.values(WORKFLOWS).filter((type) => !types.has(type))).toEqual([]);
  });

  it('that took another path are found', async () => {
    const file = files.find((path) => path.includes('deliverWebhooks') && path.includes('timer')) ?? '';
    const { workflowId, history } = read(file);
    const started = history.events[0]?.workflowExecutionStartedEventAttributes;
    if (started?.workflowType) started.workflowType.name = WORKFLOWS.housekeeping;
    await expect(Worker.runReplayHistory(options, history, workflowId)).rejects.toMatchObject({
      name: 'DeterminismViolationError',
    });
  });
});
