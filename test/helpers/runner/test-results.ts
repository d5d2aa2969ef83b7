import { readFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { projectRoot } from '../../../src/runtime/project-root.ts';

/** The counts of jest. */
export interface Results {
  passed: number;
  /** a file that could not be loaded counts as one failure, as does a jest without results */
  failed: number;
  skipped: number;
  /** each test file with the seconds it took */
  files: { name: string; seconds: number }[];
}

const SHOWN = 10;

/** Reads the file that `jest --json --outputFile` wrote. */
export async function readResults(file: string): Promise<Results> {
  const json = await readFile(file, 'utf8').then(
    (text) => JSON.parse(text) as JestResults,
    () => undefined,
  );
  if (json === undefined) return { passed: 0, failed: 1, skipped: 0, files: [] };
  return {
    passed: json.numPassedTests,
    failed: json.numFailedTests + json.numRuntimeErrorTestSuites,
    skipped: json.numPendingTests + json.numTodoTests,
    files: json.testResults.map(({ name, startTime, endTime }) => ({
      name: relative(projectRoot(), name),
      seconds: Math.max(0, endTime - startTime) / 1000,
    })),
  };
}

interface JestResults {
  numPassedTests: number;
  numFailedTests: number;
  numRuntimeErrorTestSuites: number;
  numPendingTests: number;
  numTodoTests: number;
  /** milliseconds since 1970 */
  testResults: { name: string; startTime: number; endTime: number }[];
}

/** The files that took longest, as lines. */
export function slowestFiles({ files }: Results): string {
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, SHOWN);
  return ['Slowest files:', ...slowest.map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`)].join(
    '\n',
  );
}
