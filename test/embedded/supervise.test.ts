import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { isRunning, type ProcessHandle } from '../../src/runtime/process-handle.ts';
import { createSupervisor, type Part, type Supervisor } from '../../src/embedded/supervise.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** A part that runs a line of JavaScript; ready when it has printed its pid to its log. */
function part(dir: string, name: string, script: string): Part {
  return {
    name,
    command: process.execPath,
    args: ['-e', script],
    env: {},
    stopSignal: 'SIGTERM',
    stopMs: 300,
    readyMs: 5000,
    isReady: async () => (await readFile(join(dir, `${name}.log`), 'utf8').catch(() => '')).includes('up'),
  };
}

const STAYS = 'console.log("up"); setInterval(() => {}, 1000)';

/** A part that waits for its settings as worker and API do, and prints one of them. */
function receiver(): Partial<Part> {
  const require = createRequire(import.meta.url);
  const module = new URL('../../src/runtime/settings-message.ts', import.meta.url).href;
  const script = `import { receiveSettings } from '${module}'; console.log('loaded'); await receiveSettings(process);
    console.log('up', process.env.COLOUR, process.env.SETTINGS_FOLLOW); setInterval(() => {}, 1000)`;
  const args = ['--import', pathToFileURL(require.resolve('tsx')).href, '--input-type=module', '-e', script];
  return { args, ipc: true };
}

describe('the supervisor', () => {
  let dir: string;
  let supervisor: Supervisor;
  let lines: string[];
  let handles: ProcessHandle[];
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'supervise-'));
    lines = [];
    supervisor = createSupervisor({
      logDir: dir,
      printLine: (line) => lines.push(line),
      onChange: (now) => (handles = now),
    });
  });
  afterEach(async () => {
    await supervisor.stop();
    await rm(dir, { recursive: true });
  });

  const logOf = (name: string) => readFile(join(dir, `${name}.log`), 'utf8').catch(() => '');

  it('waits until a part is ready, and stops it', async () => {
    await supervisor.start(part(dir, 'one', STAYS));
    const [handle] = supervisor.handles();
    expect(isRunning(handle!)).toBe(true);
    expect(handles).toEqual([handle]);
    await supervisor.stop();
    expect(isRunning(handle!)).toBe(false);
  });

  it('restarts a part that was killed', async () => {
    await supervisor.start(part(dir, 'one', STAYS));
    const [first] = supervisor.handles();
    process.kill(first!.pid, 'SIGKILL');
    await waitFor(() => lines.includes('one runs again'));
    const [second] = supervisor.handles();
    expect(second!.pid).not.toBe(first!.pid);
    expect(lines[0]).toMatch(/^one exited \(SIGKILL\); restarting it/);
  });

  it('restarts a part though its processes cannot be recorded: the disk is full', async () => {
    await supervisor.stop();
    let isFull = false;
    const onChange = () => {
      if (isFull) throw new Error('ENOSPC: no space left on device, write');
    };
    supervisor = createSupervisor({ logDir: dir, printLine: (line) => lines.push(line), onChange });
    await supervisor.start(part(dir, 'one', STAYS));
    isFull = true;
    process.kill(supervisor.handles()[0]!.pid, 'SIGKILL');
    await waitFor(() => lines.includes('one runs again'));
    expect(lines).toContain('could not record the processes: ENOSPC: no space left on device, write');
  });

  it('restarts a process that is frozen, and not one that answers', async () => {
    await supervisor.stop();
    const checks = { checkMs: 100, missedChecks: 5 };
    supervisor = createSupervisor({ logDir: dir, printLine: (line) => lines.push(line), ...checks });
    const module = new URL('../../src/runtime/alive.ts', import.meta.url).href;
    const script = `import { answerChecks } from '${module}'; answerChecks(process); console.log('up')`;
    const require = createRequire(import.meta.url);
    const args = ['--import', pathToFileURL(require.resolve('tsx')).href, '--input-type=module', '-e', script];
    const answering = (name: string): Part => ({ ...part(dir, name, ''), readyMs: 20_000, args, ipc: true });
    await Promise.all([supervisor.start(answering('frozen')), supervisor.start(answering('well'))]);
    const [frozen, well] = supervisor.handles();
    process.kill(frozen!.pid, 'SIGSTOP');
    await waitFor(() => lines.includes('frozen runs again'), { timeoutMs: 20_000 });
    expect(lines[0]).toBe('frozen does not respond; restarting it');
    expect(isRunning(frozen!)).toBe(false);
    expect(isRunning(well!)).toBe(true);
  }, 40_000);

  it('reports in one line why a part did not start', async () => {
    const failing = part(dir, 'bad', 'console.error("FATAL: the cat is away"); process.exit(3)');
    await expect(supervisor.start(failing)).rejects.toThrow(/^bad exited: FATAL: the cat is away \(log: .*bad\.log\)$/);
    await expect(supervisor.start({ ...failing, command: '/nowhere/to/be/found' })).rejects.toThrow(/ENOENT/);
    const hanging = { ...part(dir, 'slow', 'setInterval(() => {}, 1000)'), readyMs: 200 };
    await expect(supervisor.start(hanging)).rejects.toThrow(/^slow was not ready after 0.2 s/);
  });

  it('waits for a part as long as it says that it is busy', async () => {
    const recovering = part(dir, 'one', 'setTimeout(() => console.log("up"), 1500); setInterval(() => {}, 1000)');
    const isReady = async () => (await recovering.isReady(undefined)) || ('busy' as const);
    await supervisor.start({ ...recovering, readyMs: 200, isReady });
    expect(await logOf('one')).toContain('up');
    await expect(
      supervisor.start({ ...part(dir, 'two', STAYS), readyMs: 200, isReady: async () => false }),
    ).rejects.toThrow('two was not ready after 0.2 s');
  });

  it('gives a part that it starts again five times as long', async () => {
    let isSlow = false;
    const began = performance.now();
    let startedAt = began;
    const isReady = async () => !isSlow || performance.now() - startedAt > 900;
    const beforeStart = async () => void (startedAt = performance.now());
    await supervisor.start({ ...part(dir, 'one', STAYS), readyMs: 300, isReady, beforeStart });
    isSlow = true;
    process.kill(supervisor.handles()[0]!.pid, 'SIGKILL');
    await waitFor(() => lines.includes('one runs again'));
    expect(lines).toEqual([expect.stringMatching(/^one exited \(SIGKILL\)/), 'one runs again']);
  });

  it('starts nothing once it stops', async () => {
    let proceed = () => {};
    const beforeStart = () => new Promise<void>((resolve) => (proceed = resolve));
    const started = supervisor.start({ ...part(dir, 'one', STAYS), beforeStart });
    await supervisor.stop();
    proceed();
    await expect(started).rejects.toThrow('one is not started');
    expect(supervisor.handles()).toEqual([]);
  });

  it.each([
    [
      'a panic of a program in Go, above its stack',
      'panic: listen: in use\\n\\ngoroutine 1 [running]:\\n' + 'main.main()\\n\\tmain.go:18 +0x96\\n'.repeat(20),
      'panic: listen: in use',
    ],
    [
      'the error above such a panic',
      '{"level":"ERROR","msg":"no listener","error":"in use"}\\npanic: runtime error: nil pointer\\ngoroutine 1 [running]:\\n',
      'no listener: in use',
    ],
    ['the error of a log line', '{"level":"fatal","msg":"no listener","error":"in use"}\\n', 'no listener: in use'],
  ])('reports %s', async (_name, output, reason) => {
    const failing = part(dir, 'bad', `process.stderr.write('${output}'); process.exitCode = 2`);
    await expect(supervisor.start(failing)).rejects.toThrow(`bad exited: ${reason} (log: `);
  });

  it('sends settings to a part that was started before they were known, and after its restart', async () => {
    let know = (_settings: Record<string, string>) => {};
    const settings = new Promise<Record<string, string>>((resolve) => (know = resolve));
    const started = supervisor.start({ ...part(dir, 'one', ''), ...receiver(), settings, readyMs: 10_000 });
    await waitFor(async () => (await logOf('one')).includes('loaded'));
    expect(await logOf('one')).not.toContain('up');
    know({ COLOUR: 'green' });
    await started;
    process.kill(supervisor.handles()[0]!.pid, 'SIGKILL');
    // without the variable that announces them
    await waitFor(async () => (await logOf('one')).match(/up green undefined/g)?.length === 2);
  });

  it('reports, when the settings are known, why a part exited that waited for them', async () => {
    const failing = { ...part(dir, 'bad', 'console.error("cannot load"); process.exit(3)'), ipc: true };
    const settings = new Promise<Record<string, string>>((resolve) => setTimeout(resolve, 500, {}));
    await expect(supervisor.start({ ...failing, settings })).rejects.toThrow(/^bad exited: cannot load/);
    const noServers = Promise.reject<Record<string, string>>(new Error('no servers'));
    await expect(supervisor.start({ ...failing, settings: noServers })).rejects.toThrow('no servers');
  });

  it('kills a part that does not exit when asked to', async () => {
    await supervisor.start(part(dir, 'deaf', `process.on('SIGTERM', () => {}); ${STAYS}`));
    const [handle] = supervisor.handles();
    await supervisor.stop();
    expect(isRunning(handle!)).toBe(false);
  });

  it('makes the files of parts readable by the owner only', async () => {
    const writes = `require('fs').writeFileSync(${JSON.stringify(join(dir, 'made'))}, ''); ${STAYS}`;
    await supervisor.start(part(dir, 'one', writes));
    expect((await stat(join(dir, 'made'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(dir, 'one.log'))).mode & 0o777).toBe(0o600);
  });
});
