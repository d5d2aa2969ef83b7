import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { bundleWorkflows } from '../../src/temporal/bundle.ts';

/**
 * Without its source map: about 550 KB are the SDK's own. A jump means that a workflow imports more than types and
 * constants, which every cached run would hold in memory.
 */
const MAX_BYTES = 700_000;

describe('the bundle of the workflows', () => {
  it('has modules without state: all runs of a thread share them', () => {
    const dir = join(import.meta.dirname, '../../src/workflows');
    const lines = readdirSync(dir).flatMap((name) => readFileSync(join(dir, name), 'utf8').split('\n'));
    expect(lines.length).toBeGreaterThan(1_000);
    expect(
      lines.filter((line) => /^(export )?(let|var)\b|^(export )?const .*\bnew (Weak)?(Map|Set)\b/.test(line)),
    ).toEqual([]);
  });

  it('stays small and has no other code of the product', async () => {
    const { code } = await bundleWorkflows();
    const sources = [...code.matchAll(/"\.\/src\/([\w/-]+)\.ts"/g)].map(([, path = '']) => path);
    expect(new Set(sources.filter((path) => !path.startsWith('workflows/')))).toEqual(new Set());
    expect(code.indexOf('//# sourceMappingURL=')).toBeGreaterThan(0);
    expect(code.indexOf('//# sourceMappingURL=')).toBeLessThan(MAX_BYTES);
  }, 60_000);
});
