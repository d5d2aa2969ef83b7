import { expect, it } from '@jest/globals';
import { createWindows } from '../../src/api/windows.ts';
import { waitFor } from '../helpers/assert/wait.ts';

it('a window ends in its time, also when the clock is set back', async () => {
  const windows = createWindows(200, 10);
  windows.add('source', 1);
  const { now } = Date;
  Date.now = () => now() - 3_600_000;
  try {
    expect([windows.countOf('source'), windows.resetS('source')]).toEqual([1, 1]);
    await waitFor(() => windows.countOf('source') === 0, { timeoutMs: 2_000 });
  } finally {
    Date.now = now;
  }
});
