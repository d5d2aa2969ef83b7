import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { codeBlocks, read } from '../helpers/assert/markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const SCRIPT = join(ROOT, 'scripts', 'sizing.mjs');

/** What the script prints, by its first words. */
function sizing(...options: string[]): Record<string, string> {
  const text = execFileSync(process.execPath, [SCRIPT, ...options], { encoding: 'utf8' });
  return Object.fromEntries(
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/) as [string, string]),
  );
}

describe('npm run sizing', () => {
  it('computes the rows of docs/sizing.md', () => {
    const text = read(ROOT, 'docs/sizing.md');
    const rows = [...text.matchAll(/^\| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+ GiB) \|/gm)].map((row) => row.slice(1));
    expect(rows.length).toBeGreaterThanOrEqual(4);
    const numberOf = (written = '') => written.replaceAll(',', '');
    for (const [mailboxes, mails, cores, memory] of rows) {
      const needs = sizing(`--mailboxes=${numberOf(mailboxes)}`, `--mails=${numberOf(mails)}`);
      expect([mailboxes, needs['cores'], needs['memory of all machines']]).toEqual([mailboxes, cores, memory]);
    }
  });

  it('runs as docs/sizing.md shows it', () => {
    const [block] = codeBlocks(read(ROOT, 'docs/sizing.md')).filter(({ language }) => language === 'sh');
    const text = execFileSync('sh', ['-c', block?.text ?? 'false'], { cwd: ROOT, encoding: 'utf8' });
    expect(text).toMatch(/^cores +\d+$/m);
  });

  it('keeps events for 30 days, and mail for as long as is said', () => {
    const of = (days: number) => sizing('--mailboxes=100', '--mails=1000000', `--days=${days}`);
    expect(of(1)['Postgres after 1 days']).toBe('29 GB');
    expect(of(31)['Postgres after 31 days']).toBe(`${31 * 16 + 30 * 13} GB`);
    expect(of(31)['storage after 31 days']).toBe('341 GB in 31,000,000 files');
  });

  it.each([[[]], [['--mailboxes=many']], [['--mailboxes=-1']], [['--mailbox=3']]])('refuses %j', (options) => {
    const { status, stderr } = spawnSync(process.execPath, [SCRIPT, ...options], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, expect.stringContaining('Usage: npm run sizing')]);
  });
});
