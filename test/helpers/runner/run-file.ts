import { createEmptyTestResult, type SerializableError, type TestResult } from '@jest/test-result';
import type { Circus, Config } from '@jest/types';
import { addEventHandler, getState, resetState, run } from 'jest-circus';
import { formatExecError, formatResultsErrors } from 'jest-message-util';
import { pathToFileURL } from 'node:url';
import { expect, jest } from './globals.ts';

/** The outcome of a file; one that cannot be run has only an error. */
export interface FileOutcome {
  result?: TestResult;
  error?: SerializableError;
}

const LOAD_MS = 300_000;

/** Uncaught errors, until a test or the file takes them. */
const uncaught = new Map<unknown, unknown>();

process.on('uncaughtException', (error) => uncaught.set(error, error));
process.on('unhandledRejection', (reason, promise) => uncaught.set(promise, reason));
process.on('rejectionHandled', (promise) => uncaught.delete(promise));
addEventHandler(async (event) => {
  if (event.name === 'test_start') expect.setState({ currentTestName: nameOf(event.test) });
  // jest waits for this handler: the test is not over before
  if (event.name === 'test_done') event.test.errors.push(...(await takeErrors()));
});

/** Loads a test file and runs its tests. Never rejects. */
export async function runFile(
  path: string,
  globalConfig: Config.GlobalConfig,
  projectConfig: Config.ProjectConfig,
): Promise<FileOutcome> {
  const begin = Date.now();
  const restore = saveProcess();
  try {
    resetState();
    const state = getState();
    state.testTimeout = globalConfig.testTimeout ?? state.testTimeout;
    state.expand = globalConfig.expand;
    if (globalConfig.testNamePattern) state.testNamePattern = new RegExp(globalConfig.testNamePattern, 'i');
    expect.setState({ expand: globalConfig.expand, testPath: path, suppressedErrors: [] });
    await load(path);
    const ran = await run();
    ran.unhandledErrors.push(...(await takeErrors()).map(textOf));
    const result = toResult(ran, { path, globalConfig, projectConfig });
    const end = Date.now();
    result.perfStats = { ...result.perfStats, start: begin, end, runtime: end - begin };
    return { result };
  } catch (error) {
    return { error: { message: String(error), stack: textOf(error) } };
  } finally {
    jest.restoreAllMocks();
    restore();
  }
}

async function load(path: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the file was not loaded within ${LOAD_MS / 1000} s`)), LOAD_MS);
  });
  await Promise.race([import(pathToFileURL(path).href), late]).finally(() => clearTimeout(timer));
}

/** Takes uncaught errors. A rejection may still be handled in this turn of the event loop. */
async function takeErrors(): Promise<unknown[]> {
  await new Promise((resolve) => setTimeout(resolve));
  const { suppressedErrors } = expect.getState();
  expect.setState({ suppressedErrors: [] });
  const errors = [...suppressedErrors, ...uncaught.values()];
  uncaught.clear();
  return errors;
}

interface FileContext {
  path: string;
  globalConfig: Config.GlobalConfig;
  projectConfig: Config.ProjectConfig;
}

function toResult(ran: Circus.RunResult, { path, globalConfig, projectConfig }: FileContext): TestResult {
  const testResults = ran.testResults.map(toAssertionResult);
  const count = (status: string) => testResults.filter((result) => result.status === status).length;
  const problems = ran.unhandledErrors.map((stack) => ({ message: '', stack }));
  const messages = [
    formatResultsErrors(testResults, projectConfig, globalConfig, path),
    ...problems.map((problem) => formatExecError(problem, projectConfig, globalConfig, path)),
  ];
  return {
    ...createEmptyTestResult(),
    failureMessage: messages.filter((message) => message !== null).join('\n\n') || null,
    numFailingTests: count('failed'),
    numPassingTests: count('passed'),
    numPendingTests: count('pending'),
    numTodoTests: count('todo'),
    ...(problems.length > 0 ? { testExecError: { message: '', stack: ran.unhandledErrors.join('\n') } } : {}),
    testFilePath: path,
    testResults,
  };
}

function toAssertionResult(test: Circus.TestResult): TestResult['testResults'][number] {
  // the first is the block around the whole file
  const names = test.testPath.slice(1);
  return {
    ancestorTitles: names.slice(0, -1),
    title: names.at(-1) ?? '',
    fullName: names.join(' '),
    duration: test.duration ?? null,
    failureDetails: [],
    failureMessages: [...test.errors],
    invocations: test.invocations,
    location: null,
    numPassingAsserts: 0,
    retryReasons: [],
    status: statusOf(test),
  };
}

function statusOf({ status, errors }: Circus.TestResult): TestResult['testResults'][number]['status'] {
  if (status === 'skip') return 'pending';
  if (status === 'todo') return 'todo';
  return errors.length > 0 ? 'failed' : 'passed';
}

function nameOf(test: Circus.TestEntry): string {
  const names = [test.name];
  for (let block: Circus.DescribeBlock | undefined = test.parent; block?.parent; block = block.parent) {
    names.unshift(block.name);
  }
  return names.join(' ');
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : `thrown: ${String(error)}`;
}

/** Returns a function that restores the environment of the process and removes listeners that a file added. */
function saveProcess(): () => void {
  const env = { ...process.env };
  const names = ['warning', 'uncaughtException', 'unhandledRejection', 'SIGTERM', 'SIGINT', 'exit'];
  const listeners = new Map(names.map((name) => [name, new Set(process.rawListeners(name))]));
  return () => {
    for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
    Object.assign(process.env, env);
    for (const [name, before] of listeners) {
      for (const listener of process.rawListeners(name)) {
        if (!before.has(listener)) process.removeListener(name, listener as () => void);
      }
    }
  };
}
