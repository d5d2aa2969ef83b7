import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { builtModule } from '../helpers/product/built.ts';

/** A process that reports lines, and ends with code 7. */
function reporting(stdout: number | 'pipe') {
  const script = `
    import { createReport } from ${JSON.stringify(builtModule('embedded/report'))};
    const report = createReport(process.stdout);
    createReport(process.stdout).line('of another one');
    setInterval(() => report.line('a line'), 10);
    await report.during('some work', () => new Promise((done) => setTimeout(done, 2500)));
    process.exit(7);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', stdout, 'pipe'] });
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const ended = once(child, 'close', { signal: AbortSignal.timeout(10_000) });
  return { child, ended: async () => ({ code: (await ended)[0] as number, errors }) };
}

describe('the report at the terminal', () => {
  (existsSync('/dev/full') ? it : it.skip)('does not end the process when its file is on a full disk', async () => {
    const { ended } = reporting(openSync('/dev/full', 'a'));
    expect(await ended()).toEqual({ code: 7, errors: '' });
  });

  it('does not end the process when its reader has exited', async () => {
    const { child, ended } = reporting('pipe');
    child.stdout?.once('data', () => child.stdout?.destroy());
    expect(await ended()).toEqual({ code: 7, errors: '' });
  });
});
