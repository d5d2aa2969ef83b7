import { readFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The counts of jest. */
export interface Results {
  passed: number;
  /** a file that could not be loaded counts as one failure, as does a jest without results */
  failed: number;
  skipped: number;
  /** each test file with the seconds it took */
  files: { name: string; seconds: number }[];
  /** what failed: file, test, begin of the message without its stack */
  failures: string[];
}

const SHOWN = 10;
const MESSAGE_LENGTH = 300;

/** Reads the file that `jest --json --outputFile` wrote. */
export async function readResults(file: string): Promise<Results> {
  const json = await readFile(file, 'utf8').then(
    (text) => JSON.parse(text) as JestResults,
    () => undefined,
  );
  if (json === undefined) return { passed: 0, failed: 1, skipped: 0, files: [], failures: ['no results of jest'] };
  return {
    passed: json.numPassedTests,
    failed: json.numFailedTests + json.numRuntimeErrorTestSuites,
    skipped: json.numPendingTests + json.numTodoTests,
    files: json.testResults.map(({ name, startTime, endTime }) => ({
      name: relative(projectRoot(), name),
      seconds: Math.max(0, endTime - startTime) / 1000,
    })),
    failures: json.testResults.flatMap(failuresOf),
  };
}

interface JestResults {
  numPassedTests: number;
  numFailedTests: number;
  numRuntimeErrorTestSuites: number;
  numPendingTests: number;
  numTodoTests: number;
  /** milliseconds since 1970 */
  testResults: FileResult[];
}

interface FileResult {
  name: string;
  startTime: number;
  endTime: number;
  status: string;
  /** of a file that could not be loaded */
  message: string;
  assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
}

function failuresOf({ name, status, message, assertionResults }: FileResult): string[] {
  const file = relative(projectRoot(), name);
  const failed = assertionResults.filter((one) => one.status === 'failed');
  if (status === 'failed' && failed.length === 0) return [`${file}: ${beginOf(message)}`];
  return failed.map(({ fullName, failureMessages }) => `${file} › ${fullName}: ${beginOf(failureMessages.join(' '))}`);
}

function beginOf(message: string): string {
  const [text = ''] = stripVTControlCharacters(message).split(/\n\s+at /);
  return text.replace(/\s+/g, ' ').slice(0, MESSAGE_LENGTH);
}

/** The files that took longest, as lines. */
export function slowestFiles({ files }: Results): string {
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, SHOWN);
  return ['Slowest files:', ...slowest.map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`)].join(
    '\n',
  );
}
