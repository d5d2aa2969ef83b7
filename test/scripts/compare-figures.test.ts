import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';

const SCRIPT = join(import.meta.dirname, '..', '..', 'scripts', 'compare-figures.mjs');
const dir = mkdtempSync(join(tmpdir(), 'figures-'));
afterAll(() => rmSync(dir, { recursive: true }));

/** Compares two runs of one bench, given as its medians by figure. */
function compare(before: Record<string, number>, after: Record<string, number>, ...options: string[]) {
  const files = Object.entries({ before, after }).map(([run, medians]) => {
    const figures = Object.entries(medians).map(([name, median]) => ({ name, median }));
    const file = join(dir, `${run}.json`);
    writeFileSync(file, JSON.stringify({ at: run, figures: { counts: { figures } } }));
    return file;
  });
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...files, ...options], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

it('the figures that differ most are printed first, and nothing fails without a limit', () => {
  const { status, stdout } = compare({ one: 10, two: 10 }, { one: 11, two: 30 });
  expect(status).toBe(0);
  expect(stdout.split('\n').filter((line) => line.startsWith('| counts'))).toEqual([
    '| counts: two | 10 | 30 | 3 |',
    '| counts: one | 10 | 11 | 1.1 |',
  ]);
});

it('a figure that is over the limit fails, one below and a new one do not', () => {
  expect(compare({ one: 10 }, { one: 10.9, two: 5 }, '--most=1.1').status).toBe(0);
  const { status, stderr } = compare({ one: 10, two: 10 }, { one: 10, two: 11.2 }, '--most=1.1');
  expect(status).toBe(1);
  expect(stderr).toContain('counts: two');
});

it('a figure that is gone, or could not be taken, fails', () => {
  expect(compare({ one: 10, two: 10 }, { one: 10 }, '--most=1.1').stderr).toContain('counts: two');
  expect(compare({ one: 10 }, { one: Number.NaN }, '--most=1.1').status).toBe(1);
});
