import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { readResults, type Results } from '../helpers/runner/test-results.ts';

/** Test files whose tests must count as failed, except where they are named `good…`. */
const FILES: Record<string, string> = {
  'bad-after-all': `it('passes', () => {}); afterAll(() => { throw new Error('no') });`,
  'bad-before-all': `beforeAll(() => { throw new Error('no') }); it('one', () => {}); it('two', () => {});`,
  'bad-before-each': `beforeEach(async () => { throw new Error('no') }); it('one', () => {});`,
  'bad-empty': ``,
  'bad-endless': `it('never ends', () => new Promise(() => {}), 100);`,
  'bad-endless-by-default': `it('never ends', () => new Promise(() => {}));`,
  'bad-endless-each': `describe.each([1])('%d', () => { it.each([2])('never ends', () => new Promise(() => {}), 100); });`,
  'bad-endless-hook': `beforeAll(() => new Promise(() => {}), 100); it('one', () => {});`,
  'bad-exit': `it('ends the process', () => process.exit(0));`,
  'bad-import': `import './nothing-of-that-name.ts'; it('one', () => {});`,
  'bad-load': `it('one', () => {}); throw new Error('no');`,
  'bad-rejection': `it('forgets a promise', () => { void Promise.reject(new Error('no')); });`,
  'bad-syntax': `it('one', () => {`,
  'bad-test': `it('one', () => expect(1).toBe(2)); it('two', () => {});`,
  'bad-throw': `it('throws later', () => new Promise((resolve) => { setImmediate(() => { setImmediate(resolve); throw new Error('no'); }); }));`,
  'good-1-leaves-things': `it('one', () => { process.env.LEFT_BEHIND = '1'; process.on('warning', () => {}); });`,
  'good-2-finds-nothing': `it('one', () => {
    expect(process.env.LEFT_BEHIND).toBeUndefined();
    expect(process.listeners('warning').filter((one) => String(one) === '() => {}')).toEqual([]);
  });`,
  'good-each': `describe.each([1, 2])('%d', (n) => { it.each([3, 4])('%d', (m) => expect(n).toBeLessThan(m)); });`,
  'good-handled': `it('handles a rejection later', async () => {
    const late = Promise.reject(new Error('no'));
    await new Promise((resolve) => setImmediate(resolve));
    await late.catch(() => {});
  });`,
  'good-mocks': `const one = { call: () => 1 };
    it('spies', () => { jest.spyOn(one, 'call').mockReturnValue(2); expect(one.call()).toBe(2); jest.restoreAllMocks(); expect(one.call()).toBe(1); });`,
  'good-skipped': `it.skip('one', () => { throw new Error('no') }); it('two', () => {});`,
  'good-timeout': `jest.setTimeout(20_000); it('takes longer than the default', () => new Promise((resolve) => setTimeout(resolve, 1_500)));`,
};
const HEAD = `import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';\n`;
/** Failed tests of a file that has not one. */
const FAILED: Record<string, number> = { 'bad-before-all': 2 };

let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'runner-'));
  await mkdir(join(dir, 'test'));
  await writeFile(join(dir, 'package.json'), JSON.stringify({ type: 'module' }));
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(dir, 'test', `${name}.test.ts`), HEAD + text);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Runs the files in one process after the other. */
async function runJest(
  ...args: string[]
): Promise<Results & { exitCode: number | null; statuses: Record<string, string> }> {
  const root = projectRoot();
  const config = {
    rootDir: dir,
    runner: join(root, 'test', 'helpers', 'runner', 'runner.mjs'),
    testMatch: ['**/*.test.ts'],
    transform: {},
    watchman: false,
    testTimeout: 1_000,
  };
  const output = join(dir, 'results.json');
  const jest = spawn(
    process.execPath,
    [
      join(root, 'node_modules', 'jest', 'bin', 'jest.js'),
      ...['--config', JSON.stringify(config), '--maxWorkers=1', '--json', `--outputFile=${output}`, ...args],
    ],
    { cwd: dir, stdio: 'ignore' },
  );
  const [exitCode] = (await once(jest, 'exit')) as [number | null];
  const json = JSON.parse(await readFile(output, 'utf8')) as {
    testResults: { name: string; status: string }[];
  };
  const statuses = json.testResults.map(({ name, status }) => [basename(name, '.test.ts'), status]);
  return {
    ...(await readResults(output)),
    exitCode,
    statuses: Object.fromEntries(statuses) as Record<string, string>,
  };
}

describe('the runner of the tests', () => {
  // they would be registered for the first file of a process only
  it('has no helpers that register hooks when they are imported', async () => {
    const tests = join(projectRoot(), 'test');
    const helpers = (await readdir(tests, { recursive: true })).filter((path) => /(?<!\.test)\.ts$/.test(path));
    const texts = await Promise.all(helpers.map((path) => readFile(join(tests, path), 'utf8')));
    expect(helpers.filter((_, index) => /^(before|after)(All|Each)\(/m.test(texts[index]!))).toEqual([]);
  });

  it('fails each file that does not run to its end without an error, and no other', async () => {
    const { statuses, exitCode, passed, failed, skipped } = await runJest();
    const bad = Object.keys(FILES).filter((name) => name.startsWith('bad'));
    expect(Object.keys(statuses).sort()).toEqual(Object.keys(FILES).sort());
    expect(
      Object.keys(statuses)
        .filter((name) => statuses[name] === 'failed')
        .sort(),
    ).toEqual(bad.sort());
    expect(exitCode).toBe(1);
    const tests = bad.map((name) => FAILED[name] ?? 1);
    expect(failed).toBe(tests.reduce((sum, count) => sum + count, 0));
    expect({ passed, skipped }).toEqual({ passed: 12, skipped: 1 });
  }, 120_000);

  it('runs the tests of a name', async () => {
    const { passed, failed, exitCode } = await runJest('--testNamePattern=^two$', 'bad-test', 'good-skipped');
    expect({ passed, failed, exitCode }).toEqual({ passed: 2, failed: 0, exitCode: 0 });
  }, 60_000);
});
